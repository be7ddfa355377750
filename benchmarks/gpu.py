"""Texts a second on a GPU, encoding and training, and the share of what its matrix units can do.

    python benchmarks/gpu.py [--models bert:base,t5:11b] [--what encode,train] [--precision bf16]
                             [--length 128] [--seconds 5] [--device cuda] [--json FILE]

Models have random weights, which are made on the device. `t5:11b` has the size of Sentence-T5's largest
encoder (T5 1.0: 24 layers of width 1,024, inner width 65,536, 128 heads of 128). Every text has `--length`
random tokens: tokenising is left out, all else of the way from ids on the host to float32 vectors on the
host is in. A training step takes `--pairs` pairs through in-batch softmax over cosines / 0.05, with gradient
caching where that many do not fit; AdamW, from a billion weights on Adafactor, as Sentence-T5 trains.

The peak is that of products of 8,192 x 8,192 matrices, measured first. TFLOP/s count the products of a
forward pass, in training three times: what gradient caching computes again is not counted. `launch` is how
long the host takes to launch a batch, beside how long it takes in all: where they are alike, the device waits
for the host, and larger batches (`--budget`) help.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from common import (
    DTYPES,
    best_seconds,
    forward_flop,
    layer_weights,
    matmul_peak,
    parser_of,
    write_figures,
)
from sentbed import RunError, RuntimeUnavailableError
from sentbed._encoder.batching import encode
from sentbed.protocols import BuildContext, Head, TokenIds, Tokenizer, Training
from sentbed.tools import Plugins, load_plugins
from sentbed_backbones._torch.bert import BertFamily
from sentbed_backbones._torch.built_transformer import BuiltTransformer, Family
from sentbed_backbones._torch.t5 import T5Family

FAMILIES: Mapping[str, tuple[type[Family], dict[str, str], int]] = {
    "bert": (BertFamily, {}, 30522),
    "t5": (T5Family, {"version": "1.0"}, 32128),
}
"""With the fields of the backbone, and the vocabulary of the published models."""
PAPER = {"t5:11b": (274.0, "Sentence-T5, appendix A: encoding on Cloud TPU-v3")}
COLUMNS = ("anchor", "positive")
LARGE = 10**9
"""Weights from which on Adafactor trains."""
SPARE = 4.0
"""GiB that are left free for the activations of a forward pass."""


class Numbers(Tokenizer):
    """A tokenizer of texts that are numbers: each is the seed of `length` random tokens."""

    def __init__(self, length: int, vocabulary: int) -> None:
        self.length, self.vocabulary = length, vocabulary

    @property
    def pad_id(self) -> int:
        """Id of the padding token."""
        return 0

    def encode(self, texts: Sequence[str], max_length: int) -> TokenIds:
        """Draw the tokens; all texts have one length."""
        length = min(self.length, max_length)
        draw = np.random.default_rng(int(texts[0]))
        ids = draw.integers(5, self.vocabulary, len(texts) * length, dtype=np.int32)
        return TokenIds(ids, np.arange(len(texts) + 1, dtype=np.int64) * length)


class Bench:
    """One model on an engine."""

    def __init__(
        self, plugins: Plugins, name: str, options: argparse.Namespace
    ) -> None:
        self.plugins, self.name, self.options = plugins, name, options
        family, size = name.split(":")
        kind, fields, vocabulary = FAMILIES[family]
        parameters: Any = plugins.load("backbone", family)(
            init="random", size=size, **fields
        )
        self.family = kind(parameters, frozenset())
        self.original = self.family.tokenizer(
            BuildContext(lambda: ["a few words for a tokenizer that nobody uses"])
        )
        self.config = self.family.config(self.original)
        self.config.vocab_size = vocabulary
        self.weights = layer_weights(self.config) + vocabulary * self.family.width(
            self.config
        )
        self.tokens = Numbers(options.length, vocabulary)

    def engine(self) -> Any:
        """Return a fresh engine, whose budget no other model has moved."""
        fields: dict[str, Any] = {"precision": self.options.precision}
        if self.options.budget is not None:
            fields["token_budget"] = self.options.budget
        return self.plugins.load("runtime", self.options.device)(**fields).build()

    def placed(self, engine: Any, dtype: torch.dtype) -> Any:
        """Make weights in `dtype` on the device, and an encoder of them with mean pooling."""
        engine.seed(0)
        with torch.device(engine.device):
            model = self.family.loader().from_config(self.config, dtype=dtype)
        model.pooler = None
        built = BuiltTransformer(
            self.family.parameters,
            self.family,
            model,
            self.original,
            {"init": "random"},
        )
        return engine.assemble(
            built, self.plugins.load("pooler", "mean")(), Head(normalize=True)
        )

    def encode(self) -> dict[str, Any]:
        """Return texts per second, and the seconds of a full batch on the processor and on the device."""
        engine = self.engine()
        placed = self.placed(engine, DTYPES[engine.describe()["precision"]])
        rows = max(1, engine.token_budget // self.options.length)

        def run(batches: int) -> float:
            texts = list(map(str, range(batches * rows)))
            start = time.perf_counter()
            output = encode(
                texts,
                self.tokens,
                placed,
                self.options.length,
                engine.token_budget,
            )
            seconds = time.perf_counter() - start
            if not np.isfinite(output).all():
                raise SystemExit(
                    f"{self.name}: vectors are not finite, a rate would be void"
                )
            return seconds

        run(2)
        batches = max(1, math.ceil(self.options.seconds / run(1)))
        seconds = run(batches)
        batch = pad_all(self.tokens, rows, self.options.length)
        launch = time.perf_counter()
        placed.vectors(batch)
        launch = time.perf_counter() - launch
        return {
            "texts_per_s": batches * rows / seconds,
            "batch": rows,
            "token_budget": engine.token_budget,
            "launch_s": launch,
            "batch_s": best_seconds(
                lambda: placed.vectors(batch), 0.0, str(engine.device)
            ),
            **engine.counters(),
        }

    def train(self) -> dict[str, Any]:
        """Return texts a second of whole steps."""
        engine = self.engine()
        messages: list[str] = []
        engine.report_to(messages.append)
        placed = self.placed(engine, torch.float32)
        adafactor = self.weights >= LARGE
        optimizer: Any = self.plugins.load(
            "optimizer", "adafactor" if adafactor else "adamw"
        )(lr=1e-5)
        training = Training(
            loss=self.plugins.load("loss", "info-nce")(temperature=0.05),
            optimizer=optimizer,
            schedule=self.plugins.load("schedule", "constant")(),
            total_steps=10**9,
            towers=dict.fromkeys(COLUMNS, "encoder"),
        )
        trainer = engine.trainer({"encoder": placed}, training)
        pairs = self.options.pairs
        sides = [
            self.tokens.encode([str(number)] * pairs, self.options.length)
            for number in range(2)
        ]
        columns = dict(zip(COLUMNS, sides, strict=True))
        losses = [trainer.step(columns).loss for _ in range(2)]
        start, steps = time.perf_counter(), 0
        while steps == 0 or time.perf_counter() - start < self.options.seconds:
            losses.append(trainer.step(columns).loss)
            steps += 1
        seconds = time.perf_counter() - start
        if not np.isfinite(losses).all():
            raise SystemExit(
                f"{self.name}: training has diverged, a rate would be void"
            )
        return {
            "texts_per_s": 2 * pairs * steps / seconds,
            "batch": pairs,
            "micro_batch": getattr(trainer, "training", training).micro_batch,
            "optimizer": optimizer.name,
            "said": messages,
            **engine.counters(),
        }

    def needs(self, what: str) -> float:
        """Return the least memory in GiB: weights with a copy; or with gradients, bf16 copies, optimiser."""
        if what == "encode":
            each = 2 * DTYPES[self.options.precision].itemsize
        else:
            each = 4 + 4 + 2 + (0 if self.weights >= LARGE else 8)
        return self.weights * each / 2**30 + SPARE


def pad_all(tokens: Numbers, rows: int, length: int) -> Any:
    """Return a batch of texts of one length."""
    from sentbed.helpers import pad

    return pad(tokens.encode(["0"] * rows, length), np.arange(rows), tokens.pad_id)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, printing as it goes; returns what `--json` writes."""
    plugins = load_plugins()
    engine: Any = plugins.load("runtime", options.device)(
        precision=options.precision
    ).build()
    memory = engine.describe().get("memory_gib", math.inf)
    peak = matmul_peak(
        DTYPES[options.precision], min(2.0, options.seconds), str(engine.device)
    )
    settings = {
        key: value
        for key, value in vars(options).items()
        if not isinstance(value, Path)
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    figures: dict[str, Any] = {
        "engine": {**engine.describe()},
        "versions": versions,
        "settings": settings,
        "matmul_tflops": peak,
        "cases": [],
    }
    print(
        f"{engine.describe()['device']}: products of matrices in {options.precision} {peak:.1f} TFLOP/s"
    )
    print(
        f"{'':<18}{'texts/s':>10}{'TFLOP/s':>10}{'peak':>7}{'paper':>8}{'launch':>10}{'batch':>10}"
    )
    for name in options.models:
        bench = Bench(plugins, name, options)
        flop = forward_flop(bench.config, options.length)
        for what in options.what:
            case: dict[str, Any] = {
                "model": name,
                "what": what,
                "weights": bench.weights,
            }
            figures["cases"].append(case)
            if (least := bench.needs(what)) > memory:
                case["left_out"] = (
                    f"needs about {least:.0f} GiB, the device has {memory:.0f}"
                )
            else:
                case |= attempted(bench.encode if what == "encode" else bench.train)
            if "left_out" in case:
                print(f"{name} {what}: left out, {case['left_out']}")
                continue
            case["tflops"] = (
                case["texts_per_s"] * flop * (3 if what == "train" else 1) / 1e12
            )
            case["share_of_peak"] = case["tflops"] / peak
            if what == "encode" and name in PAPER and options.length == 128:
                case["paper_texts_per_s"], case["paper"] = PAPER[name]
            print(row(case))
    return figures


def attempted(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the measurements of one case, or the reason why there are none."""
    try:
        return call()
    except RunError as error:
        return {"left_out": str(error)}
    finally:
        gc.collect()
        torch.cuda.empty_cache()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def row(case: Mapping[str, Any]) -> str:
    """Return the row of a case."""
    paper = f"{case['paper_texts_per_s']:.0f}" if "paper_texts_per_s" in case else ""
    times = "".join(
        f"{1e3 * case[key]:>7.1f} ms" for key in ("launch_s", "batch_s") if key in case
    )
    return (
        f"{case['model']:<11}{case['what']:<7}{case['texts_per_s']:>10.1f}{case['tflops']:>10.2f}"
        f"{case['share_of_peak']:>7.0%}{paper:>8}{times}"
    )


def listed(choices: Sequence[str] = ()) -> Callable[[str], list[str]]:
    """Return how to read `a,b,c`."""

    def read(text: str) -> list[str]:
        values = [part.strip() for part in text.split(",")]
        if wrong := [part for part in values if choices and part not in choices]:
            raise argparse.ArgumentTypeError(
                f"found `{wrong[0]}`; choose among {', '.join(choices)}"
            )
        return values

    return read


def model_names(text: str) -> list[str]:
    """Read `FAMILY:SIZE,...`."""
    names = listed()(text)
    for name in names:
        family, _, size = name.partition(":")
        if family not in FAMILIES or not size:
            raise argparse.ArgumentTypeError(
                f"found `{name}`; give FAMILY:SIZE of {', '.join(FAMILIES)}"
            )
    return names


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its table, or a message if there is no GPU."""
    parser = parser_of(__doc__)
    parser.add_argument("--models", type=model_names, default=["bert:base", "t5:11b"])
    parser.add_argument(
        "--what", type=listed(("encode", "train")), default=["encode", "train"]
    )
    parser.add_argument("--precision", choices=list(DTYPES), default="bf16")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=128, help="of a training step")
    parser.add_argument(
        "--budget", type=int, default=None, help="tokens a batch when encoding"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="for each case, about"
    )
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu tries the path out",
    )
    options = parser.parse_args(arguments)
    if options.device == "cpu" and options.budget is not None:
        parser.error("`--budget` is for a GPU; leave it out")
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        figures = measure(options)
    except RuntimeUnavailableError as error:
        print(f"skipped: {error}")
        return
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
