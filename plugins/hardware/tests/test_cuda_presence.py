"""What shows without PyTorch that no GPU can be used."""

from __future__ import annotations

import sys
from importlib import metadata

import pytest
from sentbed_hardware import cuda_presence
from sentbed_hardware.cuda import Cuda


@pytest.fixture(autouse=True)
def _no_limit(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


def built(version, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: version)


def test_a_build_for_processors_is_named(monkeypatch):
    built("2.13.0+cpu", monkeypatch)
    assert Cuda().unavailable() == (
        "this PyTorch (2.13.0+cpu) is built without CUDA; install a build for your driver as "
        'https://pytorch.org/get-started/locally says, or take `use = "cpu"`'
    )


def test_a_build_for_a_system_without_cuda_is_named(
    monkeypatch,
):
    built("2.13.0", monkeypatch)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert str(Cuda().unavailable()).startswith(
        "this PyTorch (2.13.0) is built without CUDA; "
    )


def test_a_missing_driver_is_named(monkeypatch):
    built("2.13.0", monkeypatch)
    monkeypatch.setattr(
        cuda_presence, "DRIVERS", {"linux": "libcuda-that-is-not-there.so"}
    )
    assert Cuda().unavailable() == (
        "there is no driver of NVIDIA here (`libcuda-that-is-not-there.so`), and so no GPU; see whether "
        '`nvidia-smi` lists one, or take `use = "cpu"`'
    )


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cu128"])
def test_a_driver_that_is_there_may_do(version, monkeypatch):
    built(version, monkeypatch)
    # A library that every Linux has in the place of the driver's.
    monkeypatch.setattr(cuda_presence, "DRIVERS", {"linux": "libc.so.6"})
    assert Cuda().unavailable() is None


def test_a_build_for_gpus_of_another_maker_needs_no_driver_of_nvidia(
    monkeypatch,
):
    built("2.13.0+rocm6.4", monkeypatch)
    monkeypatch.setattr(
        cuda_presence, "DRIVERS", {"linux": "libcuda-that-is-not-there.so"}
    )
    assert Cuda().unavailable() is None


@pytest.mark.parametrize("visible", ["", "-1"])
def test_gpus_that_are_hidden_are_named(visible, monkeypatch):
    built("2.13.0", monkeypatch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    expected = f"`CUDA_VISIBLE_DEVICES` is {visible!r} and hides every GPU; "
    assert str(Cuda().unavailable()).startswith(expected)


def test_no_pytorch_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert str(Cuda().unavailable()).startswith(
        "the runtime `cuda` needs PyTorch, which is not installed; "
    )
