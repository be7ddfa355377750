"""Building of the engine for the host's processor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from sentbed import RuntimeUnavailableError
from sentbed.helpers import usable_cores

from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.lead_engine import LeadEngine, spread
from sentbed_hardware._torch.streams import keep_freed_memory, streams_on
from sentbed_hardware.engine_parts.process_group import neighbours

if TYPE_CHECKING:
    from sentbed_hardware.cpu import Cpu

BF16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
"""Instruction sets any of which makes bf16 faster than fp32; without them it is emulated, and slower."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}

INT8_INSTRUCTIONS = ("amx_int8", "avx512_vnni", "avx_vnni")
"""Instruction sets any of which computes products of 8-bit numbers exactly; without them sums overflow."""


def bf16_instructions() -> list[str]:
    """Return which bf16 instruction sets this processor has."""
    return _present(BF16_INSTRUCTIONS)


def _present(names: tuple[str, ...]) -> list[str]:
    capabilities = torch.cpu.get_capabilities()
    return [name for name in names if capabilities.get(name)]


def build_cpu_engine(parameters: Cpu) -> LeadEngine | TorchEngine:
    """See `Cpu.build`."""
    found, wanted = bf16_instructions(), parameters.precision
    if wanted == "auto":
        wanted = "bf16" if found else "fp32"
    needed = {"bf16": BF16_INSTRUCTIONS, "int8": INT8_INSTRUCTIONS}.get(wanted, ())
    if needed and not _present(needed):
        raise RuntimeUnavailableError(
            f"this processor has no {wanted} instructions "
            f"(none of {', '.join(f'`{name}`' for name in needed)}); "
            'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
        )
    # If the recipe sets no threads, the user's environment applies to torch, too.
    given = os.environ.get("OMP_NUM_THREADS", "")
    own = int(given) if given.isdecimal() and int(given) > 0 else max(1, usable_cores() // neighbours())
    threads = parameters.threads or own
    streams = min(parameters.streams or streams_on(threads), threads)
    keep_freed_memory()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(parameters.deterministic)
    engine = TorchEngine(
        device=torch.device("cpu"),
        dtype=DTYPES[wanted],
        compile=parameters.compile,
        facts={
            "runtime": parameters.name,
            "device": torch.cpu.get_capabilities().get("cpu_name", "unknown"),
            "precision": wanted,
            "bf16_instructions": found,
            "threads": threads,
            "streams": streams,
            "deterministic": parameters.deterministic,
        },
        streams=streams,
    )
    return spread(engine, parameters)
