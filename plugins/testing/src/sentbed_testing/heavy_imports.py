"""Detection of heavy libraries that a plugin loads when it is imported."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "torch", "jax", "tensorflow", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "sklearn",
    "pandas", "datasets", "pyarrow", "matplotlib", "nltk", "mteb", "peft", "accelerate", "tensorboard",
    "mlflow", "onnx", "onnxruntime", "openvino", "nncf", "sentence_transformers", "ray",
)  # fmt: skip
"""Libraries whose import alone takes longer than `sentbed check` may take."""


def heavy_libraries(module: str) -> list[str]:
    """Return the heavy libraries that importing a module in a new process loads.

    Raises:
        ImportError: if the process fails; the message is the last line of its error output.
    """
    program = (
        "import importlib, sys\n"
        f"sys.path[:] = {sys.path!r}\n"
        f"importlib.import_module({module!r})\n"
        f"print(*(name for name in {HEAVY!r} if name in sys.modules))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["nothing"]
        raise ImportError(lines[-1])
    return process.stdout.split()
