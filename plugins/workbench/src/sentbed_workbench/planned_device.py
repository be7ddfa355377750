"""The device of a plan and its speed, which is measured for a CPU and published for an accelerator."""

from __future__ import annotations

import csv
import json
import os
import re
from contextlib import suppress
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import attrs
from sentbed.errors import SentbedError
from sentbed.helpers import physical_memory, read_json, usable_cores, write_atomic
from sentbed.protocols import Runtime
from sentbed_common import cache_root, memory_limit, present_instructions

ACCELERATORS = "accelerators.tsv"
"""File with published figures of accelerators: memory in GB, memory bandwidth in TB/s, and the speed of matrix
products without sparsity in TFLOP/s, by precision.

Sources are NVIDIA's data sheets and Google's pages on system architecture. A TPU v3 is one core. For TPUs, a
matrix product in fp32 counts as six passes of the matrix units."""
RATES = "rates.json"
"""File in the cache directory with the speeds that were measured on this machine."""
REACHED_SHARE = (0.3, 0.6)
"""Least and most share of an accelerator's published speed that training steps are assumed to reach."""
STEP_SECONDS = 0.03
"""Approximate least duration, in seconds, of a step on an accelerator: it launches a thousand kernels or more."""
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
    step_seconds: float = 0.0
    """Minimum duration of a step in seconds."""
    token_budget: int = PROCESSOR_TOKENS
    """Number of tokens of a batch for encoding."""
    problem: str = ""
    """Reason why the speed is unknown; empty if it is known."""


def device_of(
    runtime: Runtime,
    on: str | None = None,
    measure: bool = False,
) -> Device:
    """Return the device of a runtime, or the accelerator that `on` names.

    Every runtime except `cuda` and `tpu` is assumed to use this machine's CPU. With `measure`, the speed of
    the CPU is measured again.
    """
    settings: Any = runtime
    devices = getattr(settings, "devices", None) or 1
    device = Device(
        runtime.name,
        count=devices * getattr(settings, "nodes", 1),
        parallel=getattr(settings, "parallel", "ddp"),
    )
    if on is None and find_spec("torch") is None:
        problem = "PyTorch is not installed, which measures and counts; `pip install 'sentbed-workbench[plan]'`"
        return attrs.evolve(device, problem=problem)
    if runtime.name in ("cuda", "tpu"):
        return _accelerator(device, settings, on)
    if on is not None:
        problem = (
            f"the runtime `{runtime.name}` is planned for this machine's processor, which is no `{on}`; leave "
            "out `--on`, or plan another runtime: `--set runtime.use=cuda`"
        )
        return attrs.evolve(
            device, precision=_precision(settings, True), problem=problem
        )
    return _processor(device, settings, devices, measure)


def _precision(settings: Any, has_bf16: bool) -> str:
    """Return the precision in which a runtime computes; fp32 if the runtime's settings do not tell."""
    precision: str = getattr(settings, "precision", "fp32")
    if precision == "auto" and has_bf16:
        return "bf16"
    if precision in ("bf16", "fp16"):
        return precision
    return "fp32"


def accelerators(kind: str) -> dict[str, dict[str, float]]:
    """Return the figures of each accelerator of a kind (`cuda` or `tpu`) by name. Unknown figures are missing."""
    lines = (files("sentbed_workbench") / ACCELERATORS).read_text("utf-8").splitlines()
    published = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        if row.pop("kind") == kind:
            name = row.pop("name")
            published[name] = {key: float(value) for key, value in row.items() if value}
    return published


def _words(name: str) -> set[str]:
    """Return the words and numbers in a name, in lower case."""
    return set(re.findall(r"[a-z0-9]+", name.lower()))


def _accelerator(
    device: Device,
    settings: Any,
    on: str | None,
) -> Device:
    """Return the device with the figures of the accelerator that `on` names, or of this machine's GPU."""
    name, memory = on, None
    if name is None and device.kind == "cuda":
        import torch

        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties(0)
            name, memory = properties.name, int(properties.total_memory)

    published = accelerators(device.kind)
    figures: dict[str, float] = {}
    problem = (
        f"the speed of a `{name}` is not known, only those of {', '.join(published)}"
    )
    if name is None:
        problem = "there is no device here that can be asked; name one with `--on`, such as `--on H100`"
    else:
        for published_name, row in published.items():
            if _words(published_name) <= _words(name):
                figures, problem = row, ""
                break

    device = attrs.evolve(
        device,
        name=name or "unknown",
        precision=_precision(settings, not figures or "bf16" in figures),
        memory=memory,
        step_seconds=STEP_SECONDS,
        token_budget=settings.token_budget or ACCELERATOR_TOKENS,
        problem=problem,
    )
    if not figures:
        return device

    precision = device.precision
    if precision == "fp32" and getattr(settings, "tf32", False):
        precision = "tf32"
    device = attrs.evolve(
        device,
        memory=memory or int(figures["memory"] * 1e9),
        bandwidth=figures["bandwidth"] * 1e12,
    )
    if precision not in figures:
        return attrs.evolve(device, problem=f"it does not compute in {precision}")
    flops = figures[precision]
    low, high = REACHED_SHARE
    return attrs.evolve(
        device,
        rates=(low * flops * 1e12, high * flops * 1e12),
        source=f"{low:.0%} to {high:.0%} of its maker's {flops:g} TFLOP/s, assumed",
    )


def _processor(
    device: Device,
    settings: Any,
    devices: int,
    measure: bool,
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
    *rates, bandwidth = _rates(name, threads, precision, measure)
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
    measure: bool,
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
        if not measure:
            return [float(rate) for rate in cached[key]]

    rates = measured_rates(threads, precision)
    # A plan can do without the cache.
    with suppress(OSError, SentbedError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, json.dumps({**cached, key: rates}, indent=2) + "\n")
    return rates
