"""The first compilation of a graph, in a process of its own.

OpenVINO generates code for the processor, and has ended the process on some of them. There the trial ends,
and the run says what to do.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentbed import ModelError
from sentbed_common import run_program, signal_name

PROGRAM = Path(__file__).parent.parent / "compilation_program.py"

SECONDS = 900
"""After which a compilation counts as hung."""

REMEDY = "use the runtime `cpu` or `onnxruntime`"


def try_compilation(path: Path, settings: Mapping[str, Any], parts: str) -> None:
    """Compile the graph of `path` and compute two batches, in a process that may crash.

    Raises:
        ModelError: if it did, fails or does not end.
    """
    arguments = [str(path), json.dumps(settings)]
    try:
        trial = run_program(PROGRAM, arguments, SECONDS, {})
    except subprocess.TimeoutExpired as error:
        raise ModelError(
            f"OpenVINO has not compiled the graph of {parts} within {SECONDS} s; {REMEDY}"
        ) from error
    if trial.returncode < 0:
        raise ModelError(
            f"OpenVINO crashed on this processor ({signal_name(-trial.returncode)}) when it compiled the "
            f"graph of {parts}, in a process apart from this one; {REMEDY}"
        )
    if trial.returncode > 0:
        last_line = " ".join(trial.stderr.strip().splitlines()[-1:])
        raise ModelError(
            f"OpenVINO does not compile the graph of {parts}: {last_line:.400}; {REMEDY}"
        )
