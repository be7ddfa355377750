"""The device of a plan: precision, number, and memory."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import attrs
from sentbed.helpers import physical_memory
from sentbed.protocols import Runtime
from sentbed_common import memory_limit, present_instructions

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
    """Number of devices."""
    parallel: str = "ddp"
    """`ddp` (every device holds all weights) or `fsdp` (every device holds a share of them)."""
    memory: int | None = None
    """Memory in bytes of one device, or one process's share of a CPU's memory; None if it is unknown."""
    libraries: int = ACCELERATOR_LIBRARIES
    """Memory in bytes that libraries take before an encoder is built."""
    token_budget: int = PROCESSOR_TOKENS
    """Number of tokens of a batch for encoding."""


def device_of(runtime: Runtime) -> Device:
    """Return the device of a runtime.

    Every runtime except `cuda` and `tpu` is assumed to use this machine's CPU.
    """
    settings: Any = runtime
    device = Device(
        runtime.name,
        count=getattr(settings, "devices", None) or 1,
        parallel=getattr(settings, "parallel", "ddp"),
    )
    if runtime.name in ("cuda", "tpu"):
        return _accelerator(device, settings)
    return _processor(device, settings)


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
    name, memory = "unknown", None
    if device.kind == "cuda" and find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties(0)
            name, memory = properties.name, int(properties.total_memory)
    return attrs.evolve(
        device,
        name=name,
        precision=_precision(settings, True),
        memory=memory,
        token_budget=settings.token_budget or ACCELERATOR_TOKENS,
    )


def _processor(device: Device, settings: Any) -> Device:
    """Return the device with name and memory of this machine's CPU."""
    memory = memory_limit() or physical_memory()
    if memory is not None:
        # The processes of a run share the machine's memory.
        memory //= device.count
    return attrs.evolve(
        device,
        name="processor",
        precision=_precision(settings, bool(present_instructions("bf16"))),
        memory=memory,
        libraries=PROCESSOR_LIBRARIES,
    )
