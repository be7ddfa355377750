"""Hashes of source code, which make an edited component count as a different one."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

from sentbed.helpers import STARTED
from sentbed.tools import files_digest


def code_of(*parts: type | str) -> str | None:
    """Return a hash of the source code of these modules and of the whole packages of these classes.

    Return None if the running code is not known: for a class that was defined interactively, or a file that has
    changed since this process started, which may run an older version.
    """
    files: set[Path] = set()
    for part in parts:
        files_of_part = _file(part) if isinstance(part, str) else _package(part)
        if not files_of_part:
            return None
        files |= files_of_part
    try:
        for file in files:
            status = file.stat()
            if max(status.st_mtime, status.st_ctime) > STARTED:
                return None
        return files_digest(files)
    except OSError:
        return None


def _package(component: type) -> set[Path]:
    """Return the files of a class's outermost package, or its module's file if there is no package."""
    for name in accumulate(component.__module__.split("."), "{}.{}".format):
        is_package = hasattr(sys.modules.get(name), "__path__")
        # A namespace package has no file and may contain unrelated code.
        if is_package and (files := _file(name)):
            (init,) = files
            return set(init.parent.rglob("*.py"))
    return _file(component.__module__)


def _file(module: str) -> set[Path]:
    """Return the file of an imported module; empty if it has none."""
    path = getattr(sys.modules.get(module), "__file__", None)
    if not path:
        return set()
    return {Path(path)}
