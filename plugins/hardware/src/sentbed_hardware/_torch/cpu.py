"""Building of the engine for the host's processor."""

from __future__ import annotations

import os

import torch
from sentbed import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_common import (
    BF16_INSTRUCTIONS,
    bf16_instructions,
    present_instructions,
)

from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.streams import keep_freed_memory, streams_on
from sentbed_hardware.torchrun_environment import processes_on_this_machine

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}

INT8_INSTRUCTIONS = ("amx_int8", "avx512_vnni", "avx_vnni")
"""Instruction sets any of which computes products of 8-bit numbers exactly; without them sums overflow."""


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
    needed = {"bf16": BF16_INSTRUCTIONS, "int8": INT8_INSTRUCTIONS}.get(precision, ())
    if needed and not present_instructions(needed):
        raise RuntimeUnavailableError(
            f"this processor has no {precision} instructions "
            f"(none of {', '.join(f'`{name}`' for name in needed)}); "
            'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
        )
    threads = threads or _default_threads()
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


def _default_threads() -> int:
    """Return the threads where the recipe sets none: the user's, or this process's share of the cores."""
    of_openmp = os.environ.get("OMP_NUM_THREADS", "")
    if of_openmp.isdecimal() and int(of_openmp) > 0:
        return int(of_openmp)
    return max(1, usable_cores() // processes_on_this_machine())
