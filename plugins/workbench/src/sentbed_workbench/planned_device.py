"""The device of a plan: its memory, and the measured speed of a CPU."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import attrs
from sentbed.errors import SentbedError
from sentbed.helpers import physical_memory, read_json, usable_cores, write_atomic
from sentbed.protocols import Runtime
from sentbed_common import cache_root, memory_limit, present_instructions

RATES = "rates.json"
"""File in the cache directory with the speeds that were measured on this machine."""
PROCESSOR_LIBRARIES = 500_000_000
"""Bytes of memory that Python, PyTorch and transformers take on a CPU, measured with a tiny model."""
ACCELERATOR_LIBRARIES = 2**29
"""Approximate bytes of memory that the libraries of CUDA take on a GPU."""
PROCESSOR_TOKENS = 4096
"""Number of tokens of a batch for encoding on a CPU."""
ACCELERATOR_TOKENS = 16384
"""Number of tokens of a batch for encoding on an accelerator whose runtime has no `token_budget`."""


@attrs.frozen
class Device:
    """Device of a plan."""

    kind: str
    """Name of the runtime."""
    name: str = "unknown"
    precision: str = "fp32"
    """Precision of the computation: `fp32`, `bf16` or `fp16`."""
    count: int = 1
    """Total number of devices on all machines."""
    parallel: str = "ddp"
    """`ddp` (every device holds all weights) or `fsdp` (every device holds a share of them)."""
    memory: int | None = None
    """Memory in bytes of one device, or one process's share of a CPU's memory; None if it is unknown."""
    libraries: int = ACCELERATOR_LIBRARIES
    """Memory in bytes that libraries take before an encoder is built."""
    rates: tuple[float, float] | None = None
    """Least and most floating-point operations per second that a step reaches; None if unknown."""
    bandwidth: float | None = None
    """Memory bandwidth of one device in bytes per second; None if unknown."""
    source: str = ""
    """Source of `rates` and `bandwidth`."""
    token_budget: int = PROCESSOR_TOKENS
    """Number of tokens of a batch for encoding."""
    problem: str = ""
    """Reason why the speed is unknown; empty if it is known."""


def device_of(runtime: Runtime) -> Device:
    """Return the device of a runtime.

    Every runtime except `cuda` and `tpu` is assumed to use this machine's CPU.
    """
    settings: Any = runtime
    devices = getattr(settings, "devices", None) or 1
    device = Device(
        runtime.name,
        count=devices * getattr(settings, "nodes", 1),
        parallel=getattr(settings, "parallel", "ddp"),
    )
    if find_spec("torch") is None:
        problem = "PyTorch is not installed, which measures and counts; `pip install 'sentbed-workbench[plan]'`"
        return attrs.evolve(device, problem=problem)
    if runtime.name in ("cuda", "tpu"):
        return _accelerator(device, settings)
    return _processor(device, settings, devices)


def _precision(settings: Any, has_bf16: bool) -> str:
    """Return the precision in which a runtime computes; fp32 if the runtime's settings do not tell."""
    precision: str = getattr(settings, "precision", "fp32")
    if precision == "auto" and has_bf16:
        return "bf16"
    if precision in ("bf16", "fp16"):
        return precision
    return "fp32"


def _accelerator(device: Device, settings: Any) -> Device:
    """Return the device with name and memory of this machine's GPU, if there is one."""
    import torch

    name, memory = "unknown", None
    if device.kind == "cuda" and torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        name, memory = properties.name, int(properties.total_memory)
    return attrs.evolve(
        device,
        name=name,
        precision=_precision(settings, True),
        memory=memory,
        token_budget=settings.token_budget or ACCELERATOR_TOKENS,
        problem="the time of an accelerator is that of a run of some steps",
    )


def _processor(
    device: Device,
    settings: Any,
    devices: int,
) -> Device:
    """Return the device with the measured speed of this machine's CPU."""
    # The runtime `cpu` sets this variable, too, and may run in this process. PyTorch reads it on import.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    from sentbed_workbench._torch.measured_rates import processor_name

    precision = _precision(settings, bool(present_instructions("bf16")))
    threads = getattr(settings, "threads", None) or usable_cores()
    unit = "threads"
    if threads == 1:
        unit = "thread"
    name = f"{processor_name()}, {threads} {unit}"
    *rates, bandwidth = _rates(name, threads, precision)
    memory = memory_limit() or physical_memory()
    if memory is not None:
        # The processes of a run share the machine's memory.
        memory //= devices
    return attrs.evolve(
        device,
        name=name,
        precision=precision,
        memory=memory,
        libraries=PROCESSOR_LIBRARIES,
        rates=(min(rates), max(rates)),
        bandwidth=bandwidth,
        source="measured here: blocks of widths 384 and 768 in training",
    )


def _rates(
    name: str,
    threads: int,
    precision: str,
) -> list[float]:
    """Return the result of `measured_rates`, from the cache file if it was measured before."""
    import torch

    from sentbed_workbench._torch.measured_rates import measured_rates

    file = cache_root() / RATES
    key = f"{name}, {precision}, torch {torch.__version__}"
    cached: dict[str, Any] = {}
    # The file may be missing or damaged.
    with suppress(OSError, ValueError, TypeError, KeyError, SentbedError):
        cached = dict(read_json(file))
        return [float(rate) for rate in cached[key]]

    rates = measured_rates(threads, precision)
    # A plan can do without the cache.
    with suppress(OSError, SentbedError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps({**cached, key: rates}, indent=2) + "\n")
    return rates
