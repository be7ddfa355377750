"""Hashes of source code, so that an edited component counts as a different one."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

from sentbed.helpers import STARTED
from sentbed.tools import files_digest


def code_of(*parts: type | str) -> str | None:
    """Return a hash of the source code of these modules and of the whole packages of these classes.

    Return None if the running code is not known: a class defined interactively, or a file that has changed
    since this process started, which may run an older version.
    """
    files: set[Path] = set()
    for part in parts:
        files_of_part = _file(part) if isinstance(part, str) else _package(part)
        if not files_of_part:
            return None
        files |= files_of_part
    try:
        if any(
            max(file.stat().st_mtime, file.stat().st_ctime) > STARTED for file in files
        ):
            return None
        return files_digest(files)
    except OSError:
        return None


def _package(component: type) -> set[Path]:
    """Return the files of a class's outermost package, or its module's file if there is no package."""
    names = accumulate(component.__module__.split("."), "{}.{}".format)
    packages = (
        _file(name) for name in names if hasattr(sys.modules.get(name), "__path__")
    )
    # A namespace package has no file and may contain unrelated code.
    init = next(filter(None, packages), None)
    if init is None:
        return _file(component.__module__)
    return {file for path in init for file in path.parent.rglob("*.py")}


def _file(module: str) -> set[Path]:
    path = getattr(sys.modules.get(module), "__file__", None)
    return {Path(path)} if path else set()
