"""Building of the engine for the host's processor."""

from __future__ import annotations

import torch
from sentbed_common import bf16_instructions

from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.streams import keep_freed_memory
from sentbed_hardware.engine_parts.processor import (
    default_threads,
    require_instructions,
    streams_on,
)

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def build_cpu_engine(
    runtime: str,
    precision: str,
    threads: int | None,
    streams: int | None,
    compile: bool,
    deterministic: bool,
) -> TorchEngine:
    """Return the engine of this process; see `Cpu.build`, whose name is `runtime`."""
    present_for_bf16 = bf16_instructions()
    if precision == "auto":
        precision = "bf16" if present_for_bf16 else "fp32"
    remedy = 'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
    require_instructions(precision, remedy)
    threads = threads or default_threads()
    streams = min(streams or streams_on(threads), threads)
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
    return TorchEngine(
        device=torch.device("cpu"),
        dtype=DTYPES[precision],
        compile=compile,
        facts={
            "runtime": runtime,
            "device": torch.cpu.get_capabilities().get("cpu_name", "unknown"),
            "precision": precision,
            "bf16_instructions": present_for_bf16,
            "threads": threads,
            "streams": streams,
            "deterministic": deterministic,
        },
        streams=streams,
    )
