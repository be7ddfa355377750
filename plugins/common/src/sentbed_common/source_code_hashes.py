"""Hashes of source code, by which results of an edited component are told from those of the earlier code."""

from __future__ import annotations

import sys
from itertools import accumulate
from pathlib import Path

from sentbed.helpers import STARTED
from sentbed.tools import files_digest


def code_of(*parts: type | str) -> str | None:
    """Return a hash of source code: that of the modules named in `parts`, and of the whole package of each class.

    Return None if the running code may differ from the code in the files: if a class was defined interactively,
    or if a file has changed since this process started.
    """
    files: set[Path] = set()
    for part in parts:
        if isinstance(part, str):
            files_of_part = _file(part)
        else:
            files_of_part = _package(part)

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
    """Return the Python files of a class's outermost package, or its module's file if it is in no package."""
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
