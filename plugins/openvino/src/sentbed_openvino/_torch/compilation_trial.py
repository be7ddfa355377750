"""A trial of compiling a graph, in a separate process.

On some processors, the code that OpenVINO generates has crashed the process. If this happens in the trial, only
the trial's process crashes. The run then ends with a message on what to do.
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
"""Time limit of the trial. A compilation that takes longer is regarded as hung."""

REMEDY = "use the runtime `cpu` or `onnxruntime`"


def try_compilation(
    path: Path,
    settings: Mapping[str, Any],
    parts: str,
) -> None:
    """Compile the graph in the file `path` and compute two batches, in a process that may crash.

    `settings` are those of `compile_model`, and `parts` names the encoder in messages.

    Raises:
        ModelError: if the process crashes, fails, or does not end within `SECONDS`.
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
            f"graph of {parts}, in a separate process; {REMEDY}"
        )
    if trial.returncode > 0:
        last_line = " ".join(trial.stderr.strip().splitlines()[-1:])
        raise ModelError(
            f"OpenVINO does not compile the graph of {parts}: {last_line:.400}; {REMEDY}"
        )
