"""Hashes of source code, so that an edited component counts as a different one."""

from __future__ import annotations

import sys
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from sentbed.helpers import STARTED


def code_of(*parts: type | str) -> str | None:
    """Return a hash of the source code of these modules and of the whole packages of these classes.

    Return None if the running code is not known: a class defined interactively, or a file that has changed
    since this process started, which may run an older version.
    """
    files: set[Path] = set()
    for part in parts:
        found = _file(part) if isinstance(part, str) else _package(part)
        if not found:
            return None
        files |= found
    try:
        if any(max(file.stat().st_mtime, file.stat().st_ctime) > STARTED for file in files):
            return None
        return _content(_states(files))
    except OSError:
        return None


def package_code(component: type) -> str:
    """Return a hash of a class's package as now on disk; "" for a class defined interactively."""
    files = _package(component)
    return _content(_states(files)) if files else ""


def _states(files: set[Path]) -> tuple[tuple[Path, int, int, int], ...]:
    states = [(file, file.stat()) for file in sorted(files)]
    return tuple((file, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for file, s in states)


@lru_cache(maxsize=64)
def _content(states: tuple[tuple[Path, int, int, int], ...]) -> str:
    """Return a hash of files in these states; cached, since a package has many classes."""
    import hashlib

    digest = hashlib.sha256()
    for file, *_ in states:
        content = file.read_bytes()
        digest.update(f"{file.name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _package(component: type) -> set[Path]:
    """Return the files of a class's outermost package, or its module's file if there is no package."""
    names = accumulate(component.__module__.split("."), "{}.{}".format)
    packages = (_file(name) for name in names if hasattr(sys.modules.get(name), "__path__"))
    # A namespace package has no file and may contain unrelated code.
    init = next(filter(None, packages), None)
    if init is None:
        return _file(component.__module__)
    return {file for path in init for file in path.parent.rglob("*.py")}


def _file(module: str) -> set[Path]:
    path = getattr(sys.modules.get(module), "__file__", None)
    return {Path(path)} if path else set()
