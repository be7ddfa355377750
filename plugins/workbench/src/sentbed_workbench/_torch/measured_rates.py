"""Measured speed of this machine's CPU: training of transformer blocks, and copies in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from sentbed_common import processor_capabilities
from torch.utils.flop_counter import FlopCounterMode

WIDTHS = (384, 768)
"""Widths of the timed blocks: the widths of MiniLM and BERT base."""
HEAD_WIDTH = 64
"""Width of an attention head."""
TEXTS = 48
"""Number of texts in the batch of a timed block."""
LENGTH = 24
"""Number of tokens of each text."""
COPIED_BYTES = 2**26
"""Number of bytes that are copied to measure the memory; they do not fit in a CPU's cache."""
SECONDS = 0.3
"""Duration of each measurement in seconds."""


def processor_name() -> str:
    """Return the CPU's name, or `processor` if PyTorch does not know it."""
    return str(processor_capabilities().get("cpu_name", "processor"))


def measured_rates(threads: int, precision: str) -> list[float]:
    """Return the speed of this machine's CPU.

    The first numbers are floating-point operations per second, one for each block in `WIDTHS`. The last number is
    bytes per second, read and written, of a copy in memory.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            rates = [_rate_of_block(width, precision) for width in WIDTHS]
        return [*rates, _rate_of_copies()]
    finally:
        torch.set_num_threads(before)


def _rate_of_block(width: int, precision: str) -> float:
    """Return the floating-point operations per second of a block's forward and backward pass."""
    block = torch.nn.TransformerEncoderLayer(
        width, width // HEAD_WIDTH, 4 * width, activation="gelu", batch_first=True
    )
    states = torch.randn(TEXTS, LENGTH, width)

    def step() -> None:
        block.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, precision == "bf16"):
            output = block(states)
        output.float().sum().backward()

    with FlopCounterMode(display=False) as counter:
        step()
    return float(counter.get_total_flops() / _shortest(step))


def _rate_of_copies() -> float:
    """Return the bytes per second that a copy reads and writes."""
    source = torch.ones(COPIED_BYTES // 4)
    target = torch.empty_like(source)
    return 2 * COPIED_BYTES / _shortest(lambda: target.copy_(source))


def _shortest(call: Callable[[], object]) -> float:
    """Return the seconds of the shortest of several calls.

    The seconds are CPU time divided by the number of threads, so that other programs hardly matter.
    """
    call()
    durations: list[float] = []
    end = time.perf_counter() + SECONDS
    while not durations or time.perf_counter() < end:
        start = time.process_time()
        call()
        durations.append(time.process_time() - start)
    return min(durations) / torch.get_num_threads()
