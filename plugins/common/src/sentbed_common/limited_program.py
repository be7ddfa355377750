"""Runs programs of sentbed that read untrusted files, in an environment without keys and tokens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ENVIRONMENT = re.compile(
    r"(PATH|PYTHONPATH|PYTHONHOME|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|VIRTUAL_ENV|SYSTEMROOT|TMPDIR|TEMP|TMP|LANG"
    r"|OPENBLAS_\w+)"
)
"""Names of the environment variables that are passed on. Other variables may hold keys and tokens."""


def run_program(
    program: Path,
    arguments: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    content: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a Python program in an environment without keys and tokens; return its completed process with output.

    `program` is the program's file, `content` is its standard input, and `variables` are added to its
    environment. Memory is not limited here: the program limits its own.

    Raises:
        TimeoutExpired: if the program has not ended after `seconds`; it is then killed.
    """
    environment = {
        name: value for name, value in os.environ.items() if ENVIRONMENT.fullmatch(name)
    }
    # Python does not write compiled modules (-B), since the program may not be allowed to write files. It does
    # not search the program's directory for modules (-P), where one could have the name of a library.
    command = [sys.executable, "-B", "-P", str(program), *arguments]
    return subprocess.run(
        command,
        input=content,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        env={**environment, **variables},
        check=False,
    )
