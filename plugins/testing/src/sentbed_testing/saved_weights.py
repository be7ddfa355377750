"""Reading of a saved encoder's weights as NumPy arrays, without PyTorch or the library safetensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentbed.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def saved_weights(directory: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays in the `.safetensors` and `.npy` files below `directory`, by `FILE:NAME`.

    Raises:
        ModelError: if there are no such files, since weights in other formats cannot be compared.
    """
    import numpy as np

    weights: dict[str, NDArray[Any]] = {}
    for path in sorted(directory.rglob("*")):
        file = path.relative_to(directory).as_posix()
        if path.suffix == ".npy":
            weights[f"{file}:{path.stem}"] = np.load(path)
        elif path.suffix == ".safetensors":
            for name, value in _read_safetensors(path).items():
                weights[f"{file}:{name}"] = value

    if not weights:
        raise ModelError(
            f"`{directory}` holds no weights in .safetensors or .npy; write them in one of these formats"
        )
    return weights


_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U8": "u1", "BOOL": "?",
}  # fmt: skip
"""Data type in the header of a safetensors file -> NumPy's name of the type."""


def _read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read a file in the format of github.com/huggingface/safetensors.

    The library's functions for NumPy cannot read bf16.
    """
    import numpy as np

    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")

    weights = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        raw = data[start + first : start + last]
        if entry["dtype"] == "BF16":
            # A bf16 number is the upper half of an fp32 number.
            values = (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(raw, _TYPES[entry["dtype"]])

        weights[name] = values.reshape(entry["shape"])

    return weights
