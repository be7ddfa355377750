"""Hashes of source code, by which results of an edited component are told from those of the earlier code."""

from __future__ import annotations

import sys
from pathlib import Path

from sentbed.helpers import STARTED
from sentbed.tools import files_digest, package_files


def code_of(*parts: type | str) -> str | None:
    """Return a hash of code: of the modules named in `parts`, and of all files of the package of each class.

    Return None if the running code may differ from the code in the files: if a class was defined interactively,
    or if a file has changed since this process started.
    """
    files: set[Path] = set()
    for part in parts:
        if isinstance(part, str):
            file = getattr(sys.modules.get(part), "__file__", None)
            files_of_part = {Path(file)} if file else set()
        else:
            files_of_part = package_files(part)

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
