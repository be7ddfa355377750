"""Reading and writing of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import safetensors.torch
from safetensors import SafetensorError, safe_open
from sentbed import ModelError
from torch import Tensor

Tensors: TypeAlias = Mapping[str, Tensor]
"""Tensors by their names."""


def write_tensors(
    tensors: Mapping[str, Any],
    path: Path,
    notes: dict[str, str] | None = None,
    save_file: Callable[..., None] = safetensors.torch.save_file,
) -> None:
    """Write a safetensors file with `notes` as its metadata. Raises `OSError` if the system refuses.

    `save_file` is the function of safetensors for the tensors' library.
    """
    try:
        save_file(dict(tensors), path, notes)
    except SafetensorError as error:
        # It wraps the system's error: a full disk must be distinguished from a bug of ours.
        raise OSError(str(error)) from error


def read_tensors(path: Path, remedy: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file onto the host, with its metadata.

    Raises `ModelError`, whose message ends with `remedy`.
    """
    try:
        with safe_open(path, "pt") as file:
            notes = dict(file.metadata() or {})
        return safetensors.torch.load_file(path), notes
    except (OSError, SafetensorError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {remedy}") from error
