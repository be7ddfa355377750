"""Detection of heavy libraries that a plugin or a component loads when it is imported."""

from __future__ import annotations

import base64
import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sentbed_testing.component_under_test import (
    NotRunError,
    Subject,
    init_arguments,
)

HEAVY = (
    "torch", "jax", "tensorflow", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "sklearn",
    "pandas", "datasets", "pyarrow", "matplotlib", "nltk", "mteb", "peft", "accelerate", "tensorboard",
    "mlflow", "onnx", "onnxruntime", "openvino", "nncf", "sentence_transformers", "ray",
)  # fmt: skip
"""Libraries whose import alone takes longer than `sentbed check` may take."""

PROBE = Path(__file__).with_name("import_probe.py")
"""Program that imports a module in a new process."""


def import_in_new_process(
    module: str,
    root: str,
    file: str | None = None,
    cls: str | None = None,
    fields: str | None = None,
) -> Mapping[str, str]:
    """Return the heavy libraries that importing a module loads: name -> `FILE:LINE` of the import statement.

    The module is imported in a new process. A component is created and checked there if `fields` are given.

    Args:
        module: dotted name of the module.
        root: directory of the module's package, or its file. If a line in it led to an import, that line is
            reported.
        file: file of the module, from which the module is imported if it is not installed.
        cls: name of the component's class in the module.
        fields: arguments of the class, pickled, in base64.

    Raises:
        ImportError: if the process fails; the message is the last line of its error output.
    """
    request = {
        "path": [str(Path(place).resolve()) for place in sys.path],
        "heavy": HEAVY,
        "root": root,
        "module": module,
        "file": file,
        "cls": cls,
        "fields": fields,
    }
    command = [sys.executable, "-P", str(PROBE), json.dumps(request)]
    process = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
    )
    if process.returncode:
        lines = process.stderr.strip().splitlines() or ["nothing"]
        raise ImportError(lines[-1])
    heavy: dict[str, str] = json.loads(process.stdout.splitlines()[-1])
    return heavy


def heavy_imports(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield each heavy library that a component loads before it is built, and the line that imports it."""
    cls = subject.cls
    if "." in cls.__qualname__:
        raise NotRunError(
            "the class is defined in a class or a function, where no other process can import it"
        )
    try:
        file = inspect.getfile(cls)
    except (TypeError, OSError) as error:
        raise NotRunError("the file of the class cannot be found") from error

    package = sys.modules.get(cls.__module__.partition(".")[0])
    root = next(iter(getattr(package, "__path__", ())), file)
    fields = _pickled_fields(subject)
    try:
        heavy = import_in_new_process(
            cls.__module__, root, file, cls.__qualname__, fields
        )
    except ImportError as error:
        raise ImportError(f"alone, the module ends in `{error}`") from error

    yield from heavy.items()


def _pickled_fields(subject: Subject) -> str | None:
    """Return the component's arguments, pickled, in base64; None if creating or pickling it fails."""
    try:
        arguments = init_arguments(subject.part)
        return base64.b64encode(pickle.dumps(arguments)).decode()
    except Exception:  # noqa: BLE001 - the rules `values` and `defaults` report it
        return None
