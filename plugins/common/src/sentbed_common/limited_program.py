"""Programs of ours that read a stranger's file in a process of their own, which knows no secrets."""

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
"""Variables that the process gets; others hold keys and tokens, and it needs none."""


def run_program(
    program: Path,
    arguments: Sequence[str],
    seconds: float,
    variables: Mapping[str, str],
    content: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process without this one's keys and tokens, and return what it printed.

    `variables` are set besides; `content` is its standard input. Limits of memory it sets itself.

    Raises:
        TimeoutExpired: if it has not ended after so many seconds; it is killed.
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
