"""Checks of PyTorch, its devices, compiler and process launcher on this machine, for `sentbed doctor`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sentbed import RunError
from sentbed_common import (
    Finding,
    Trial,
    elsewhere,
    present,
    processor_capabilities,
    version_of,
)

from sentbed_hardware.doctor_devices import attention, cuda, first_line, processor

COMPILE_SECONDS = 300.0


def findings() -> Iterator[Finding]:
    """Yield the findings about PyTorch and its devices."""
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a library that torch loads may be missing or broken
        detail = f"torch {version_of('torch')} cannot be imported: {error}"
        yield Finding(
            "runtimes", "cpu", "no", detail, "`pip install --force-reinstall torch`"
        )
        return

    yield Finding("runtimes", "cpu", "yes", f"torch {torch.__version__}")
    yield from processor(processor_capabilities())
    yield from attention(torch, "cpu", torch.float32)
    yield from cuda(torch)
    yield from compiling(torch)
    yield from processes(torch)


def compiling(torch: Any) -> Iterator[Finding]:
    """Yield whether the requirements of `compile = true` are met."""
    area = "compile"
    named = os.environ.get("CXX")
    if named:
        compiler = shutil.which(named)
        missing = f"CXX={named} is not there or does not run"
    else:
        compiler = shutil.which("g++") or shutil.which("clang++")
        missing = "neither g++ nor clang++ is there"

    version = compiler and first_line(compiler, "--version")
    install = "`apt install g++`, or name one: `export CXX=/path/to/clang++`"
    yield present(area, "C++ compiler", bool(version), version or missing, install)

    header = Path(sysconfig.get_path("include")) / "Python.h"
    has_header = header.is_file()
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield present(
        area, "Python.h", has_header, str(header), f"`apt install {python}-dev`"
    )

    triton = version_of("triton")
    if triton:
        yield Finding(area, "triton", "yes", triton)
    elif torch.version.cuda:
        yield Finding(area, "triton", "no", "not installed", "`pip install triton`")

    if version and has_header:
        detail = "compiler and Python.h are there"
        yield Trial(area, "torch.compile", "yes", detail, attempt=compiled)
    else:
        detail = "on processors it needs a C++ compiler and Python.h"
        yield Finding(area, "torch.compile", "no", detail)


def compiled() -> Finding:
    """Return whether a small function compiles, with an empty compiler cache."""
    with tempfile.TemporaryDirectory() as directory:
        variables = {
            "TORCHINDUCTOR_CACHE_DIR": directory,
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        outcome = elsewhere(compile_one, COMPILE_SECONDS, **variables)

    detail = f"a small function for {outcome['device']} in {outcome['seconds']:.0f} s"
    return Finding("compile", "torch.compile", "yes", detail)


def compile_one() -> dict[str, Any]:
    """Compile and run a small function; return the device and the seconds. Raises `RunError` if it is wrong."""
    import torch

    def function(values: torch.Tensor) -> torch.Tensor:
        return torch.tanh(values * 2).sum()

    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    values = torch.linspace(0, 1, 256, device=device)
    start = time.perf_counter()
    compiled_sum = torch.compile(function)(values).item()
    expected = function(values).item()
    if abs(compiled_sum - expected) > 1e-4 * expected:
        raise RunError(
            f"the compiled function returned {compiled_sum}, expected {expected}"
        )

    return {"device": device, "seconds": time.perf_counter() - start}


def processes(torch: Any) -> Iterator[Finding]:
    """Yield the launcher and the communication backends for several processes."""
    distributed = torch.distributed
    lacking = f"torch {torch.__version__} is built without it"
    if not distributed.is_available():
        yield Finding("processes", "torch.distributed", "no", lacking)
        return

    has_torchrun = importlib.util.find_spec("torch.distributed.run") is not None
    command = shutil.which("torchrun") or "python -m torch.distributed.run"
    yield present("processes", "torchrun", has_torchrun, command)
    gloo = distributed.is_gloo_available()
    yield present("processes", "gloo", gloo, "between processors")
    nccl = distributed.is_nccl_available()
    detail = lacking
    if nccl:
        version = ".".join(map(str, torch.cuda.nccl.version()))
        detail = f"{version}, between GPUs"

    yield present("processes", "nccl", nccl, detail, "as for the runtime `cuda`")
