"""Reading and writing safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from sentbed import ModelError
from torch import Tensor

Tensors: TypeAlias = Mapping[str, Tensor]
"""Name -> tensor."""


def write_tensors(
    tensors: Tensors,
    path: Path,
    notes: dict[str, str] | None = None,
) -> None:
    """Write tensors to a safetensors file, with `notes` as its metadata.

    Raises:
        OSError: if the file cannot be written, for example because the disk is full.
    """
    try:
        save_file(dict(tensors), path, notes)
    except SafetensorError as error:
        # Callers tell a full disk from a bug by `OSError`; safetensors hides the system's error.
        raise OSError(str(error)) from error


def read_tensors(
    path: Path,
    remedy: str,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a safetensors file, on the host, and its metadata.

    Raises:
        ModelError: if the file cannot be read. The message ends with `remedy`.
    """
    try:
        with safe_open(path, "pt") as file:
            notes = dict(file.metadata() or {})
        return load_file(path), notes
    except (OSError, SafetensorError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; {remedy}") from error
