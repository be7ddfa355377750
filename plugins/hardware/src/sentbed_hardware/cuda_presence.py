"""Tests whether CUDA can be used on this machine, without loading PyTorch or claiming a GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib import metadata

DRIVERS = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
"""Platform -> file name of the library of NVIDIA's driver."""
OTHERWISE = 'or take `use = "cpu"`'


def built_without_cuda(version: str) -> str:
    """Return the error message for a PyTorch of this version that is built without CUDA."""
    return (
        f"this PyTorch ({version}) is built without CUDA; install a build for your driver as "
        f"https://pytorch.org/get-started/locally says, {OTHERWISE}"
    )


def reason_without_cuda() -> str | None:
    """Return why PyTorch cannot use a GPU on this machine, with a remedy; None if no reason is known."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return f"the runtime `cuda` needs PyTorch, which is not installed; `pip install torch`, {OTHERWISE}"

    build = version.partition("+")[2]
    if build.startswith("rocm"):
        # PyTorch for AMD GPUs uses the same device names, and needs no driver of NVIDIA.
        return None
    if build == "cpu" or sys.platform not in DRIVERS:
        return built_without_cuda(version)

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1"):
        return f"`CUDA_VISIBLE_DEVICES` is {visible!r} and hides every GPU; take it out, {OTHERWISE}"

    try:
        ctypes.CDLL(DRIVERS[sys.platform])
    except OSError:
        return (
            f"there is no driver of NVIDIA here (`{DRIVERS[sys.platform]}`), and so no GPU; see whether "
            f"`nvidia-smi` lists one, {OTHERWISE}"
        )

    return None
