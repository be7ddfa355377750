"""Threads, streams and instruction sets for engines on the CPU."""

from __future__ import annotations

import os

from sentbed import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_common import BF16_INSTRUCTIONS, present_instructions

from sentbed_hardware.torchrun_environment import processes_on_this_machine

INT8_INSTRUCTIONS = ("amx_int8", "avx512_vnni", "avx_vnni")
"""Instruction sets with exact products of 8-bit integers; without any of them, sums overflow."""

MOST_STREAMS = 4
"""Largest default number of streams: they take turns at running Python, and need as many batches."""


def default_threads() -> int:
    """Return the default number of threads: `OMP_NUM_THREADS`, or this process's share of the cores."""
    of_openmp = os.environ.get("OMP_NUM_THREADS", "")
    if of_openmp.isdecimal() and int(of_openmp) > 0:
        return int(of_openmp)

    return max(1, usable_cores() // processes_on_this_machine())


def streams_on(threads: int) -> int:
    """Return the default number of streams, a divisor of the threads, so that no thread is idle."""
    counts = range(1, MOST_STREAMS + 1)
    return max(count for count in counts if threads % count == 0)


def require_instructions(precision: str, remedy: str) -> None:
    """Raise `RuntimeUnavailableError` with the remedy if the CPU lacks the instructions for a precision."""
    needed = {"bf16": BF16_INSTRUCTIONS, "int8": INT8_INSTRUCTIONS}.get(precision, ())
    if not needed or present_instructions(needed):
        return

    names = ", ".join(f"`{name}`" for name in needed)
    raise RuntimeUnavailableError(
        f"this processor has no {precision} instructions (none of {names}); {remedy}"
    )
