"""Files of weights: safetensors, or the pickles of torch, of which only tensors are read."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def weight_files(directory: Path) -> list[Path]:
    """Return the safetensors files of a directory, sorted by name; the pickled files if there are none."""
    for pattern in ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin"):
        files = sorted(directory.glob(pattern))
        if files:
            return files

    return []


def read_tensors(
    file: Path, is_read: Callable[[str], bool] = lambda _: True
) -> dict[str, torch.Tensor]:
    """Return the tensors in a file of weights of whose names `is_read` is true."""
    import safetensors
    import torch

    tensors = {}
    if file.suffix == ".safetensors":
        with safetensors.safe_open(file, "pt") as stored:
            for name in stored.keys():  # noqa: SIM118 - it is no mapping
                if is_read(name):
                    tensors[name] = stored.get_tensor(name)

        return tensors

    # Files of torch before 1.6 are no zip archives and cannot be mapped into memory.
    is_mapped = zipfile.is_zipfile(file)
    content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_mapped)
    for name, tensor in content.items():
        if is_read(name):
            tensors[name] = tensor

    return tensors
