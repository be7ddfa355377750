"""Whether this machine meets the needs of CUDA, without loading PyTorch or claiming a GPU."""

from __future__ import annotations

import ctypes
import os
import sys
from importlib import metadata

DRIVERS = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
"""The library of NVIDIA's driver, by platform."""
OTHERWISE = 'or take `use = "cpu"`'


def built_without_cuda(version: str) -> str:
    """Return the message for a PyTorch that has no CUDA."""
    return (
        f"this PyTorch ({version}) is built without CUDA; install a build for your driver as "
        f"https://pytorch.org/get-started/locally says, {OTHERWISE}"
    )


def reason_without_cuda() -> str | None:
    """Return why PyTorch cannot use an NVIDIA GPU here, with a remedy; None if no reason is known."""
    try:
        version = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return f"the runtime `cuda` needs PyTorch, which is not installed; `pip install torch`, {OTHERWISE}"

    build = version.partition("+")[2]
    if build.startswith("rocm"):
        # AMD's builds serve the same devices, without NVIDIA's driver.
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
