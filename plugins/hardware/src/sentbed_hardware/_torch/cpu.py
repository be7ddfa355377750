"""Building of the engine for the host's processor."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import torch
from sentbed import RuntimeUnavailableError
from sentbed.helpers import usable_cores

from sentbed_hardware._common.process_group import neighbours
from sentbed_hardware._torch.engine import TorchEngine
from sentbed_hardware._torch.lead_engine import LeadEngine, spread

if TYPE_CHECKING:
    from sentbed_hardware.cpu import Cpu

BF16_INSTRUCTIONS = ("amx_bf16", "avx512_bf16")
"""Instruction sets any of which makes bf16 faster than fp32; without them it is emulated, and slower."""


def bf16_instructions() -> list[str]:
    """Return which bf16 instruction sets this processor has."""
    capabilities = torch.cpu.get_capabilities()
    return [name for name in BF16_INSTRUCTIONS if capabilities.get(name)]


def build_cpu_engine(parameters: Cpu) -> LeadEngine | TorchEngine:
    """See `Cpu.build`."""
    found = bf16_instructions()
    if parameters.precision == "bf16" and not found:
        raise RuntimeUnavailableError(
            "this processor has no bf16 instructions "
            f"(none of {', '.join(f'`{name}`' for name in BF16_INSTRUCTIONS)}); "
            'use `precision = "fp32"`, or "auto" to take bf16 only where it is present'
        )
    bf16 = parameters.precision == "bf16" or (parameters.precision == "auto" and bool(found))
    # If the recipe sets no threads, the user's environment applies to torch, too.
    given = os.environ.get("OMP_NUM_THREADS", "")
    wanted = int(given) if given.isdecimal() and int(given) > 0 else max(1, usable_cores() // neighbours())
    threads = parameters.threads or wanted
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(parameters.deterministic)
    engine = TorchEngine(
        device=torch.device("cpu"),
        dtype=torch.bfloat16 if bf16 else torch.float32,
        compile=parameters.compile,
        facts={
            "runtime": parameters.name,
            "device": torch.cpu.get_capabilities().get("cpu_name", "unknown"),
            "precision": "bf16" if bf16 else "fp32",
            "bf16_instructions": found,
            "threads": threads,
            "deterministic": parameters.deterministic,
        },
    )
    return spread(engine, parameters)
