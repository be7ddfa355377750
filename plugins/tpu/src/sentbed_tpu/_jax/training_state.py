"""A trainer's state in two files: arrays as safetensors, everything else as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import jax
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sentbed import ModelError
from sentbed.helpers import read_json
from sentbed_common import host_draws

TENSORS_FILE = "state.safetensors"
VALUES_FILE = "state.json"
REMEDY = "go on from another state, or start again"
"""Advice for the user if a state cannot be used."""


@attrs.frozen(eq=False)
class State:
    """The state read from the two files."""

    arrays: Mapping[str, NDArray[Any]]
    steps: int
    random: Mapping[str, Any]
    """States of the host's generators."""


def write(
    directory: Path, arrays: Mapping[str, NDArray[Any]], steps: int, optimizer: str
) -> None:
    """Write the two files into `directory`; raises `OSError` if the system refuses."""
    values = {
        "steps": steps,
        "optimizer": optimizer,
        "random": host_draws(),
        "arrays": sorted(arrays),
    }
    directory.mkdir(parents=True, exist_ok=True)
    try:
        save_file(dict(arrays), directory / TENSORS_FILE)
    except SafetensorError as error:
        # It wraps the system's error: a full disk must be distinguished from a bug of ours.
        raise OSError(str(error)) from error
    (directory / VALUES_FILE).write_text(json.dumps(values), "utf-8")


def read(directory: Path, expected: Mapping[str, jax.Array], optimizer: str) -> State:
    """Read the two files.

    Raises:
        ModelError: if one cannot be read, or the optimiser, names or shapes are not the expected ones.
    """
    try:
        values = read_json(directory / VALUES_FILE)
        arrays = load_file(directory / TENSORS_FILE)
        written_by, state = (
            values["optimizer"],
            State(arrays, values["steps"], values["random"]),
        )
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"`{directory}` cannot be read: {error}; {REMEDY}") from error
    if values.get("arrays") != sorted(arrays):
        raise ModelError(
            f"`{TENSORS_FILE}` and `{VALUES_FILE}` in `{directory}` are of two states; {REMEDY}"
        )
    if written_by != optimizer:
        raise ModelError(
            f"`{directory}` holds the state of the optimizer `{written_by}`, the recipe has "
            f"`{optimizer}`; {REMEDY}"
        )
    for name in [*expected, *arrays]:
        saved_as, expected_as = (
            _described(arrays.get(name)),
            _described(expected.get(name)),
        )
        if saved_as != expected_as:
            raise ModelError(
                f"`{directory}` is not a state of this recipe: `{name}` is {saved_as} there and {expected_as} in "
                f"the recipe; {REMEDY}"
            )
    return state


def _described(array: Any) -> str:
    return "missing" if array is None else f"{tuple(array.shape)} {array.dtype}"
