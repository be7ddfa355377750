"""Reading and writing of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from sentbed import ModelError


def write_tensors(
    tensors: Mapping[str, torch.Tensor], path: Path, notes: dict[str, str] | None = None
) -> None:
    """Write a safetensors file, with `notes` as its metadata; raises `OSError` if the system refuses."""
    try:
        save_file(
            {name: value.detach().contiguous() for name, value in tensors.items()},
            path,
            notes,
        )
    except SafetensorError as error:
        # It wraps the system's error: a full disk must be distinguished from a bug of ours.
        raise OSError(str(error)) from error


def read_tensors(path: Path, remedy: str) -> dict[str, torch.Tensor]:
    """Read a safetensors file onto the host; raises `ModelError`, whose message ends with `remedy`."""
    return read_tensors_and_notes(path, remedy)[0]


def read_tensors_and_notes(
    path: Path, remedy: str
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read a safetensors file with its metadata, as `read_tensors` does."""
    try:
        with safe_open(path, "pt") as file:
            notes = dict(file.metadata() or {})
        return load_file(path), notes
    except (OSError, SafetensorError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {remedy}") from error
