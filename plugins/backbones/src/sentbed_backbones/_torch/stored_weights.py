"""The weights in the files of a model's directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sentbed.helpers import sha256
from sentbed_common import read_tensors, weight_files
from torch import Tensor


def stored_weights(
    directory: Path, is_read: Callable[[str], bool]
) -> dict[str, Tensor]:
    """Return the weights in a directory's files of whose names `is_read` is true."""
    weights: dict[str, Tensor] = {}
    for file in weight_files(directory):
        weights |= read_tensors(file, is_read)

    return weights


def weight_hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of weights, by name."""
    return {file.name: sha256(file) for file in weight_files(directory)}
