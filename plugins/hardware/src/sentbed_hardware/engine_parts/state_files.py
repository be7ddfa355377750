"""The file of a trainer's state, written and read by torch, without code in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from sentbed import ModelError

STATE_FILE = "state.pt"
REMEDY = "go on from another state, or start again"
"""The end of messages about a state that cannot be used."""


def write_state(directory: Path, state: Mapping[str, Any]) -> None:
    """Write a state of tensors, numbers and texts, in lists and dictionaries, into `directory`.

    Raises:
        OSError: if the file cannot be written, for example because the disk is full.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        torch.save(dict(state), directory / STATE_FILE)
    except RuntimeError as error:
        # Callers tell a full disk from a bug by `OSError`; torch hides the system's error.
        raise OSError(str(error)) from error


def read_state(directory: Path) -> dict[str, Any]:
    """Return a state, with its tensors on the host. They are read from the file when they are used.

    Raises:
        ModelError: if the file cannot be read.
    """
    path = directory / STATE_FILE
    try:
        state: dict[str, Any] = torch.load(
            path, map_location="cpu", weights_only=True, mmap=True
        )
    except (OSError, RuntimeError, EOFError, UnpicklingError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {REMEDY}") from error

    return state


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
