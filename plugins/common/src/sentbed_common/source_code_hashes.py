"""Hashes of source code, by which results of an edited component are told from those of the earlier code."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from sentbed.helpers import STARTED


def code_of(*parts: type | str) -> str | None:
    """Return a hash of code: of the modules named in `parts`, and of all files of the package of each class.

    Return None if the running code may differ from the code in the files: if a class was defined interactively,
    or if a file has changed since this process started.
    """
    files: set[Path] = set()
    for part in parts:
        if isinstance(part, str):
            files_of_part = _module_files(part)
        else:
            files_of_part = _package_files(part.__module__)

        if not files_of_part:
            # The class was typed in.
            return None

        files |= files_of_part

    states = []
    try:
        for file in sorted(files):
            status = file.stat()

            changed = max(status.st_mtime, status.st_ctime)
            if changed > STARTED:
                return None

            states.append((file, status.st_size, status.st_mtime_ns))

        return _digest(tuple(states))
    except OSError:
        return None


def _module_files(module: str) -> set[Path]:
    """Return the file of an imported module; empty if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return set()

    return {Path(file)}


def _package_files(module: str) -> set[Path]:
    """Return all files of the top-level package of a module but compiled Python; else the file of the module."""
    package = module.partition(".")[0]
    files_of_package = _module_files(package)

    if not files_of_package or not hasattr(sys.modules[package], "__path__"):
        return _module_files(module)

    files = set()
    (init,) = files_of_package

    for file in init.parent.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            files.add(file)

    return files


@lru_cache(maxsize=256)
def _digest(states: tuple[tuple[Path, int, int], ...]) -> str:
    """Return the hash of the names and contents of files with this size and time of modification."""
    digest = hashlib.sha256()

    for file, *_ in states:
        content = file.read_bytes()
        # With its length, the content of one file cannot pass for that of two.
        digest.update(f"{file.name}\0{len(content)}\0".encode())
        digest.update(content)

    return digest.hexdigest()
