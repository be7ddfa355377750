"""Shared by the benchmarks: options, sentences, limits of the machine, operations of models, timing."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from sentbed.helpers import data_root
from sentbed_common import present_instructions

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Make the parser of a benchmark, with the option `--json`."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser


def write_figures(figures: Any, file: Path | None) -> None:
    """Write the figures of a benchmark as JSON if a file is given."""
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(figures, indent=2) + "\n")


def native_precisions() -> list[str]:
    """Return `fp32` and, where the processor does not emulate it, `bf16`."""
    if present_instructions("bf16"):
        return ["fp32", "bf16"]
    return ["fp32"]


def sentences() -> list[str]:
    """Return the unique sentences of STS12-14, STS-B and SICK, in the order of the files."""
    root = data_root()
    if root is None:
        raise SystemExit(
            "set SENTBED_DATA to the directory that holds senteval/downstream"
        )
    base = root / "senteval" / "downstream"

    def fields(pattern: str, columns: slice, skip: int = 0) -> Iterator[str]:
        files = sorted(base.glob(pattern))
        if not files:
            raise SystemExit(f"no file fits {base / pattern}")
        for file in files:
            for line in file.read_text("utf-8").split("\n")[skip:]:
                if line:
                    yield from line.split("\t")[columns]

    texts = dict.fromkeys(fields("STS/STS1[234]-en-test/STS.input.*.txt", slice(0, 2)))
    texts |= dict.fromkeys(fields("STS/STSBenchmark/sts-*.csv", slice(5, 7)))
    texts |= dict.fromkeys(fields("SICK/SICK_*.txt", slice(1, 3), skip=1))
    return list(texts)


def matmul_peak(dtype: torch.dtype, seconds: float = 2.0, device: str = "cpu") -> float:
    """Return the TFLOP/s of a product of square matrices: the best of repeated calls.

    They are 2,048 wide on a processor and 8,192 on an accelerator.
    """
    size = 2048 if device == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    return 2 * size**3 / best_seconds(lambda: left @ right, seconds, device) / 1e12


def memory_bandwidth(
    size: float, seconds: float = 0.5, device: str = "cpu"
) -> dict[str, float]:
    """Return GB/s of memory over a working set of `size` bytes: the best of repeated calls.

    `triad` is STREAM's a = b + s c over three arrays, which counts two reads and one write (a processor that
    reads what it is to write moves a third more); `read` is the sum of one array. A working set that fits a
    cache gives the cache's bandwidth.
    """
    count = max(1024, int(size) // 12)
    a, b, c = (torch.zeros(count, device=device) for _ in range(3))
    whole = torch.zeros(3 * count, device=device)
    seconds_of = {
        "triad": best_seconds(
            lambda: torch.add(b, c, alpha=3.0, out=a), seconds / 2, device
        ),
        "read": best_seconds(whole.sum, seconds / 2, device),
    }
    return {name: 12 * count / best / 1e9 for name, best in seconds_of.items()}


def best_seconds(call: Callable[[], Any], seconds: float, device: str) -> float:
    """Return the seconds of the fastest of at least two calls, each until the device is done."""

    def wait() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    call()
    wait()
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        wait()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


def layer_weights(config: Any) -> int:
    """Return the weights of all products in the layers of a BERT, an OPT or a T5 encoder."""
    width, inner, layers, hidden, products = _shape(config)
    return int(layers * (4 * width * inner + products * width * hidden))


def forward_flop(config: Any, length: int) -> int:
    """Return the operations of the products that encode one text of `length` tokens.

    These are two per weight and token. Attention adds two per pair of tokens and unit of width for its scores,
    and as many for its averages. Causal attention counts in full, as kernels without a causal mask compute it.
    """
    _, inner, layers, _, _ = _shape(config)
    return int(2 * layer_weights(config) * length + 4 * layers * inner * length**2)


def _shape(config: Any) -> tuple[int, int, int, int, int]:
    """Return width, width of all heads together, layers, and width and number of the inner products."""
    kind = config.model_type
    if kind == "t5":
        inner, products = (
            config.num_heads * config.d_kv,
            3 if config.is_gated_act else 2,
        )
        return config.d_model, inner, config.num_layers, config.d_ff, products
    if kind not in ("bert", "opt"):
        raise SystemExit(
            f"found a `{kind}`, the arithmetic of bert, opt and t5 is known; add it to common.py"
        )
    width, hidden = (
        config.hidden_size,
        config.ffn_dim if kind == "opt" else config.intermediate_size,
    )
    return width, width, config.num_hidden_layers, hidden, 2


def timed(call: Callable[[list[str]], Any], texts: list[str]) -> tuple[float, Any]:
    """Return texts per second, and the result of the call."""
    start = time.perf_counter()
    result = call(texts)
    return len(texts) / (time.perf_counter() - start), result


def rates_in_turn(
    rows: Mapping[str, Callable[[list[str]], Any]], texts: list[str], rounds: int
) -> dict[str, list[float]]:
    """Return texts per second of each row in each round, after one round that is not counted."""
    for encode in rows.values():
        encode(texts)
    rates: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, encode in rows.items():
            rate, _ = timed(encode, texts)
            rates[name].append(rate)
    return rates
