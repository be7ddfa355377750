"""Speed of this machine's CPU, measured with transformer blocks."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

WIDTHS = (384, 768)
"""Widths of the timed blocks: those of MiniLM and of BERT base."""
HEAD = 64
"""Width of an attention head."""
TEXTS, LENGTH = 48, 24
"""Number of texts in the batch of a timed block, and their length in tokens."""
COPIED = 2**26
"""Bytes that are copied to time the memory: more than fit in a CPU's cache."""
SECONDS = 0.3
"""Duration of each measurement in seconds."""


def processor_name() -> str:
    """Return the CPU's name, or `processor` if PyTorch does not know it."""
    return str(torch.cpu.get_capabilities().get("cpu_name", "processor"))


def measured_rates(threads: int, precision: str) -> list[float]:
    """Return the operations per second of each block in training, then the bytes per second of copies."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            rates = [_rate_of_block(width, precision) for width in WIDTHS]
        return [*rates, _rate_of_copies()]
    finally:
        torch.set_num_threads(before)


def _rate_of_block(width: int, precision: str) -> float:
    block = torch.nn.TransformerEncoderLayer(
        width, width // HEAD, 4 * width, activation="gelu", batch_first=True
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
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    return 2 * COPIED / _shortest(lambda: target.copy_(source))


def _shortest(call: Callable[[], object]) -> float:
    """Return the duration of the shortest of several calls, in CPU time, so that other programs hardly count."""
    call()
    durations: list[float] = []
    end = time.perf_counter() + SECONDS
    while not durations or time.perf_counter() < end:
        start = time.process_time()
        call()
        durations.append(time.process_time() - start)
    return min(durations) / torch.get_num_threads()
