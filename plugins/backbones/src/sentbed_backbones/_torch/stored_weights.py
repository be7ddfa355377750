"""The weights in the safetensors files of a model's directory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from sentbed import ModelError
from sentbed.helpers import foreign, sha256


def stored_weights(directory: Path) -> Iterator[tuple[Path, str, Any]]:
    """Yield for each weight its file, its name and the open file, which has `get_tensor(name)`.

    Raises:
        ModelError: if a file cannot be read.
    """
    for file in weight_files(directory):
        problem = f"`{file}` cannot be read"
        with (
            foreign(ModelError, problem, "fetch the model again"),
            safe_open(file, "pt") as weights,
        ):
            for name in weights.keys():  # noqa: SIM118 - it is no mapping
                yield file, name, weights


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a directory, sorted by name."""
    return sorted(directory.glob("*.safetensors"))


def weight_hashes(directory: Path, computed: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each safetensors file by name; `computed` has those that are already known."""
    files = weight_files(directory)
    return {file.name: computed.get(file.name) or sha256(file) for file in files}
