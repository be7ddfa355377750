"""Detection of heavy libraries that a component loads when imported, created and checked."""

from __future__ import annotations

import base64
import inspect
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sentbed_testing.component_under_test import NotRunError, Subject

HEAVY = (
    "torch", "jax", "tensorflow", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "sklearn",
    "pandas", "datasets", "pyarrow", "matplotlib", "nltk", "mteb", "peft", "accelerate", "tensorboard",
    "mlflow", "onnx", "onnxruntime", "openvino", "nncf", "sentence_transformers", "ray",
)  # fmt: skip
"""Libraries whose import takes longer than `sentbed check` as a whole may take."""

WATCH = """
import base64, importlib, importlib.util, json, pickle, sys, traceback

asked = json.loads(sys.argv[1])
sys.path[:] = asked["path"]
places = {}


class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in asked["heavy"] and name not in places:
            stack = [f for f in traceback.extract_stack()[:-1] if "importlib" not in f.filename]
            own = [f for f in stack if f.filename.startswith(asked["root"])] or stack
            places[name] = f"{own[-1].filename}:{own[-1].lineno}"
        return None


sys.meta_path.insert(0, Watch())
"""
"""Beginning of a program that records in `places` where each library of `HEAVY` is first imported."""

_CODE = (
    WATCH
    + """
try:
    module = importlib.import_module(asked["module"])
except ModuleNotFoundError as error:
    if error.name != asked["module"].partition(".")[0]:
        raise
    spec = importlib.util.spec_from_file_location(asked["module"], asked["file"])
    module = importlib.util.module_from_spec(spec)
    sys.modules[asked["module"]] = module
    spec.loader.exec_module(module)
cls = getattr(module, asked["name"])
if asked["fields"] is not None:
    part = cls(**pickle.loads(base64.b64decode(asked["fields"])))
    list(part.check())
print(json.dumps([[name, places[name]] for name in places if name in sys.modules]))
"""
)


def heavy_imports(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield each heavy library that is loaded, and the line in the component's package that imports it."""
    cls = subject.cls
    if "." in cls.__qualname__:
        raise NotRunError(
            "the class stands inside another or in a function, where no process can import it"
        )
    try:
        file = inspect.getfile(cls)
    except (TypeError, OSError) as error:
        raise NotRunError("the file of the class cannot be found") from error
    package = sys.modules.get(cls.__module__.partition(".")[0])
    request = {
        "path": [str(Path(place).resolve()) for place in sys.path],
        "heavy": HEAVY,
        "root": next(iter(getattr(package, "__path__", ())), file),
        "module": cls.__module__,
        "file": file,
        "name": cls.__qualname__,
        "fields": _fields(subject),
    }
    command = [sys.executable, "-c", _CODE, json.dumps(request)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ImportError(
            f"alone, the module ends in `{done.stderr.strip().splitlines()[-1]}`"
        )
    yield from json.loads(done.stdout.splitlines()[-1])


def _fields(subject: Subject) -> str | None:
    """Return the arguments that create the component, or None if they cannot be sent."""
    import attrs

    try:
        part = subject.part
        values = {
            a.alias: getattr(part, a.name) for a in attrs.fields(subject.cls) if a.init
        }
        return base64.b64encode(pickle.dumps(values)).decode()
    except Exception:  # noqa: BLE001 - the rules `values` and `defaults` have it
        return None
