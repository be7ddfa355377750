"""What the benchmarks share: real sentences, the machine's peak, a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from sentbed.paths import data_root


def sentences() -> list[str]:
    """Return the unique sentences of STS12-14, STS-B and SICK, in the order of the files."""
    root = data_root()
    if root is None:
        raise SystemExit("set SENTBED_DATA to the directory that holds senteval/downstream")
    base = root / "senteval" / "downstream"

    def fields(pattern: str, columns: slice, skip: int = 0) -> Iterator[str]:
        files = sorted(base.glob(pattern))
        if not files:
            raise SystemExit(f"no file fits {base / pattern}")
        for file in files:
            for line in file.read_text("utf-8").split("\n")[skip:]:
                if line:
                    yield from line.split("\t")[columns]

    found = dict.fromkeys(fields("STS/STS1[234]-en-test/STS.input.*.txt", slice(0, 2)))
    found |= dict.fromkeys(fields("STS/STSBenchmark/sts-*.csv", slice(5, 7)))
    found |= dict.fromkeys(fields("SICK/SICK_*.txt", slice(1, 3), skip=1))
    return list(found)


def matmul_peak(dtype: torch.dtype, seconds: float = 2.0) -> float:
    """Return the TFLOP/s of a product of 2,048 x 2,048 matrices: the best of repeated calls."""
    size = 2048
    left, right = (torch.randn(size, size).to(dtype) for _ in range(2))
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        _ = left @ right
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best / 1e12


def timed(call: Callable[[list[str]], Any], texts: list[str]) -> tuple[float, Any]:
    """Return texts a second, and what the call returned."""
    start = time.perf_counter()
    result = call(texts)
    return len(texts) / (time.perf_counter() - start), result
