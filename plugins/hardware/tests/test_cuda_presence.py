"""What shows without PyTorch that no GPU can be used."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from sentbed_hardware import cuda_presence
from sentbed_hardware.cuda import Cuda

NO_DRIVER = "libcuda-that-is-not-there.so"
# A library that every Linux has in the place of the driver's.
DRIVER = "libc.so.6"
WITHOUT_CUDA = (
    "this PyTorch (2.13.0+cpu) is built without CUDA; install a build for your driver as "
    'https://pytorch.org/get-started/locally says, or take `use = "cpu"`'
)
WITHOUT_DRIVER = (
    f"there is no driver of NVIDIA here (`{NO_DRIVER}`), and so no GPU; see whether `nvidia-smi` lists one, or "
    'take `use = "cpu"`'
)
HIDDEN = "`CUDA_VISIBLE_DEVICES` is '-1' and hides every GPU; "
# GPUs of another maker need no driver of NVIDIA.
CASES = [
    ("2.13.0+cpu", "linux", DRIVER, None, WITHOUT_CUDA),
    ("2.13.0", "darwin", DRIVER, None, "this PyTorch (2.13.0) is built without CUDA; "),
    ("2.13.0", "linux", NO_DRIVER, None, WITHOUT_DRIVER),
    ("2.13.0", "linux", DRIVER, "-1", HIDDEN),
    ("2.13.0", "linux", DRIVER, None, None),
    ("2.13.0+cu128", "linux", DRIVER, None, None),
    ("2.13.0+rocm6.4", "linux", NO_DRIVER, None, None),
]


@pytest.mark.parametrize(("version", "system", "driver", "visible", "reason"), CASES)
def test_the_reason_is_told_why_no_gpu_can_be_used(
    version, system, driver, visible, reason, monkeypatch
):
    monkeypatch.setattr(metadata, "version", lambda name: version)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(cuda_presence, "DRIVERS", {"linux": driver})
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    message = Cuda().unavailable()
    if reason is None:
        assert message is None
    else:
        assert str(message).startswith(reason)


def test_no_pytorch_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(metadata, "version", missing)
    assert str(Cuda().unavailable()).startswith(
        "the runtime `cuda` needs PyTorch, which is not installed; "
    )
