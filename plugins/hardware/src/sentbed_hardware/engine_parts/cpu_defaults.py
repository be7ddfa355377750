"""Default sizes of batches and numbers of threads, and required instruction sets, on the CPU."""

from __future__ import annotations

import os

from sentbed import RuntimeUnavailableError
from sentbed.helpers import usable_cores
from sentbed_common import PRECISION_INSTRUCTIONS, present_instructions

from sentbed_hardware.torchrun_environment import processes_on_this_machine

TOKEN_BUDGET = 4096
"""Tokens per batch. Matrix products are fastest from about 2,000 tokens on, and larger batches than this do not
fit into the processor's cache."""


def default_threads() -> int:
    """Return the default number of threads of this process.

    It is `OMP_NUM_THREADS` if that is set. Otherwise, the processes on this machine share its cores equally.
    """
    of_openmp = os.environ.get("OMP_NUM_THREADS", "")
    if of_openmp.isdecimal() and int(of_openmp) > 0:
        return int(of_openmp)

    return max(1, usable_cores() // processes_on_this_machine())


def require_instructions(precision: str, remedy: str) -> None:
    """Raise `RuntimeUnavailableError` if the CPU lacks the instructions for a precision.

    The message ends with `remedy`.
    """
    if precision not in PRECISION_INSTRUCTIONS or present_instructions(precision):
        return

    names = ", ".join(f"`{name}`" for name in PRECISION_INSTRUCTIONS[precision])
    raise RuntimeUnavailableError(
        f"this processor has no {precision} instructions (none of {names}); {remedy}"
    )
