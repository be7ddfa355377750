"""Programs of ours that read untrusted files, run in a separate process without this one's keys and tokens."""

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
"""Environment variables that the process gets; the others may hold keys and tokens."""


def run_program(
    program: Path,
    arguments: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    content: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process without this one's keys and tokens, and return its output.

    `variables` are additional environment variables; `content` is its standard input. The program itself
    limits its memory.

    Raises:
        TimeoutExpired: if it has not ended after `seconds`; it is killed.
    """
    environment = {
        name: value for name, value in os.environ.items() if ENVIRONMENT.fullmatch(name)
    }
    # Without writing compiled modules, which the program may be refused.
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
