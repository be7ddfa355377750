"""The two files of a trainer's state: tensors in a safetensors file, all other values in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from sentbed import DataError, ModelError
from sentbed.helpers import read_json

from sentbed_hardware._common.tensor_files import read_tensors, write_tensors

TENSORS_FILE = "state.safetensors"
VALUES_FILE = "state.json"
DIGEST = "digest"
"""Key of the SHA-256 of the values, which is in both files, to tell the files of one state from those of two."""
REMEDY = "go on from another state, or start again"
"""The end of messages about a state that cannot be used."""


def write_state(
    directory: Path,
    values: Mapping[str, Any],
    tensors: Mapping[str, Any],
    save_file: Callable[..., None],
) -> None:
    """Write the two files of a state into `directory`.

    `save_file` is safetensors' function for the library of the tensors.

    Raises:
        OSError: if a file cannot be written, for example because the disk is full.
    """
    directory.mkdir(parents=True, exist_ok=True)
    digest = sha256(json.dumps(dict(values)).encode()).hexdigest()
    path = directory / TENSORS_FILE
    write_tensors(tensors, path, {DIGEST: digest}, save_file)
    content = json.dumps({**values, "tensors": sorted(tensors), DIGEST: digest})
    (directory / VALUES_FILE).write_text(content, "utf-8")


def read_state(
    directory: Path, load_file: Callable[..., Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values and the tensors of a state.

    `load_file` is safetensors' function for the library of the tensors.

    Raises:
        ModelError: if a file cannot be read, or if the two files belong to different states: they differ in the
            names of the tensors or in the digest of the values.
    """
    path = directory / VALUES_FILE
    try:
        values = read_json(path)
    except (OSError, ValueError, DataError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {REMEDY}") from error
    if not isinstance(values, dict):
        raise ModelError(f"`{path}` cannot be read: it is no JSON object; {REMEDY}")

    tensors, notes = read_tensors(directory / TENSORS_FILE, REMEDY, load_file)
    has_same_names = values.get("tensors") == sorted(tensors)
    if not has_same_names or values.get(DIGEST) != notes.get(DIGEST):
        raise ModelError(
            f"`{TENSORS_FILE}` and `{VALUES_FILE}` in `{directory}` belong to different states; {REMEDY}"
        )

    return values, tensors


def require_same_tensors(
    saved: Mapping[str, Any],
    expected: Mapping[str, Any],
    directory: Path,
) -> None:
    """Raise `ModelError` if the tensors of a state differ from those of the trainer in name, shape or dtype."""
    for name in [*expected, *sorted(saved)]:
        saved_as = _described(saved.get(name))
        expected_as = _described(expected.get(name))
        if saved_as != expected_as:
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {saved_as} there and {expected_as} in "
                f"the recipe; {REMEDY}"
            )


def _described(tensor: Any) -> str:
    """Return the shape and dtype of a tensor as text; "missing" for None."""
    if tensor is None:
        return "missing"

    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
