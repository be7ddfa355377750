"""Reading and writing of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sentbed import ModelError

TENSORS_FILE = "state.safetensors"
VALUES_FILE = "state.json"
REMEDY = "go on from another state, or start again"
"""Advice for the user if the state of a trainer cannot be used."""


def write_tensors(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write a safetensors file; raises `OSError` if the system refuses."""
    try:
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, path)
    except SafetensorError as error:
        # It wraps the system's error: a full disk must be distinguished from a bug of ours.
        raise OSError(str(error)) from error


def read_tensors(path: Path, remedy: str) -> dict[str, torch.Tensor]:
    """Read a safetensors file onto the host; raises `ModelError`, whose message ends with `remedy`."""
    try:
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {remedy}") from error
    return tensors
