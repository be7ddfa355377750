"""Texts a second by model, length and batch, beside the machine's limits and sentence-transformers.

    python benchmarks/throughput.py [--runtime cpu] [--families bert,t5,opt] [--sizes tiny,mini,small,base]
                                    [--lengths 16,32,64,128] [--batches 1,8,64] [--precision fp32,bf16]
                                    [--train] [--rounds 2] [--json FILE] [--plot FILE.svg]

Models have random weights; `base` of OPT is its 125m. Every text has exactly as many tokens as it says. Of
each case sentence-transformers and sentbed take turns in this process with the same weights, texts and
threads, and the ratio is taken within each round, because a shared machine drifts. Encoding is the whole way
from strings to float32 vectors in memory, in calls of `batch` texts. With `--train` also training steps of
`batch` pairs, from strings to new weights: in-batch softmax over cosines / 0.05, AdamW, gradients clipped to
1, autocast in bf16; sentence-transformers' side is its loss over its model in a plain loop, not its trainer.

The limit of a case is that of the roofline: the smaller of the measured peak of a product of matrices and the
measured bandwidth times operations a byte. Bytes are what cannot be avoided: a pass reads the weights of the
layers once. A step reads them twice, writes the gradient of all parameters, and its optimiser reads gradient,
weights and two averages and writes the last three. Bandwidth is measured over as many bytes as these arrays
have: where they fit a cache, it is the cache's. Activations are not counted, so that the limit is never too
low for their sake. The peak is the best of the run. Cases of which one call would take longer than
`--longest` at the peak are left out, and say so.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import attrs
import numpy as np
import plot
import sentence_transformers
import torch
import transformers
from common import (
    DTYPES,
    forward_flop,
    layer_weights,
    matmul_peak,
    memory_bandwidth,
    native_precisions,
    parser_of,
    write_figures,
)
from sentbed import Encoder, SentbedError
from sentbed.protocols import EncoderRecipe, Head, Trainer, Training
from sentbed.tools import Plugins, load_plugins
from sentbed_evaluators.texts_of_length import texts_of
from sentence_transformers.sentence_transformer.losses import (
    MultipleNegativesRankingLoss,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

NAMES = {"opt": {"small": None, "base": "125m"}}
"""What a family calls a size of another name; None where it has none."""
FIELDS = {"t5": {"version": "1.0"}}
TEMPERATURE, RATE = 0.05, 1e-5
COLUMNS = ("anchor", "positive")


@attrs.frozen
class Case:
    """What is timed."""

    what: str
    """`encode` or `train`."""
    length: int
    batch: int
    """Texts of a call, or pairs of a step."""

    @property
    def texts(self) -> int:
        """Texts that a call or a step encodes."""
        return self.batch * (2 if self.what == "train" else 1)

    def flop(self, config: Any) -> int:
        """Operations; the backward pass takes twice those of the forward pass."""
        return (
            self.texts
            * forward_flop(config, self.length)
            * (3 if self.what == "train" else 1)
        )

    def bytes(self, model: Model) -> int:
        """Bytes that cannot but move."""
        if self.what == "train":
            return 4 * (2 * model.weights + 8 * model.parameters)
        return model.working_set("encode")


class Model:
    """One encoder in one precision, as sentbed and as sentence-transformers hold it."""

    def __init__(
        self, plugins: Plugins, directory: Path, family: str, runtime: Any, longest: int
    ) -> None:
        self._options = {"add_pooling_layer": False} if family == "bert" else {}
        backbone = plugins.load("backbone", family)(model=str(directory))
        recipe = EncoderRecipe(
            backbone, plugins.load("pooler", "mean")(), Head(), max_length=longest
        )
        self.engine = runtime.build()
        self.device = str(getattr(self.engine, "device", "cpu"))
        self.precision = self.engine.describe()["precision"]
        self.plugins = plugins
        self.ours = Encoder.build(recipe, self.engine)
        self._directory = directory
        self.theirs = self.reference(DTYPES[self.precision])
        self.config: Any = self.theirs[0].auto_model.config
        parameters = [parameter.numel() for parameter in self.theirs.parameters()]
        self.weights: int = layer_weights(self.config)
        self.parameters: int = sum(parameters)

    def working_set(self, what: str) -> int:
        """Return the bytes of the arrays that a pass or a step goes over; in training, those of AdamW."""
        return (
            16 * self.parameters
            if what == "train"
            else DTYPES[self.precision].itemsize * self.weights
        )

    def reference(self, dtype: torch.dtype) -> Any:
        """Return the same weights as sentence-transformers loads them."""
        transformer = Transformer(
            str(self._directory), model_kwargs={"dtype": dtype, **self._options}
        )
        width = transformer.get_embedding_dimension()
        return sentence_transformers.SentenceTransformer(
            modules=[transformer, Pooling(width, "mean")], device=self.device
        )

    def difference(self, length: int) -> float:
        """Return the largest difference of two vectors of the same text, with every vector of length 1."""
        texts = texts_of(8, length)
        vectors_of_both = (
            self.ours.encode(texts, max_length=length),
            self.encoded(texts, length),
        )
        ours, theirs = (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            for vectors in vectors_of_both
        )
        return float(np.abs(ours - theirs).max())

    def encoded(self, texts: list[str], length: int) -> Any:
        """Encode as sentence-transformers."""
        self.theirs.max_seq_length = length
        return self.theirs.encode(texts, batch_size=len(texts), show_progress_bar=False)

    def calls(self, case: Case) -> dict[str, Callable[[], Any]]:
        """Return what the two do, sentence-transformers first."""
        texts = texts_of(case.texts, case.length)
        if case.what == "encode":
            return {
                "theirs": lambda: self.encoded(texts, case.length),
                "ours": lambda: self.ours.encode(texts, max_length=case.length),
            }
        sides = [texts[: case.batch], texts[case.batch :]]
        return {
            "theirs": lambda: self._their_step(sides, case.length),
            "ours": lambda: self._our_step(sides, case.length),
        }

    def prepare_training(self) -> None:
        """Build both trainers, in the place of what encodes."""
        training = Training(
            loss=self.plugins.load("loss", "info-nce")(temperature=TEMPERATURE),
            optimizer=self.plugins.load("optimizer", "adamw")(lr=RATE),
            schedule=self.plugins.load("schedule", "constant")(),
            total_steps=10**9,
            towers=dict.fromkeys(COLUMNS, "encoder"),
        )
        self.trainer: Trainer = self.engine.trainer(
            {"encoder": self.ours.placed}, training
        )
        self.theirs = self.reference(torch.float32).train()
        self._loss = MultipleNegativesRankingLoss(self.theirs, scale=1 / TEMPERATURE)
        self._optimizer = torch.optim.AdamW(self.theirs.parameters(), lr=RATE)

    def _our_step(self, sides: list[list[str]], length: int) -> float:
        tokens = [self.ours.tokenizer().encode(texts, length) for texts in sides]
        return self.trainer.step(dict(zip(COLUMNS, tokens, strict=True))).loss

    def _their_step(self, sides: list[list[str]], length: int) -> float:
        self.theirs.max_seq_length = length
        features = [
            {
                name: value.to(self.device)
                if isinstance(value, torch.Tensor)
                else value
                for name, value in self.theirs.preprocess(texts).items()
            }
            for texts in sides
        ]
        dtype = DTYPES[self.precision]
        with torch.autocast(
            self.device.split(":")[0], dtype, enabled=dtype != torch.float32
        ):
            loss = self._loss(features, None)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.theirs.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return float(loss.item())


def compare(
    model: Model, case: Case, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Return texts a second of both in each round."""
    calls = model.calls(case)
    rates: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            start, calls_made = time.perf_counter(), 0
            # Both give numbers back, so that no device is still at work when the clock is read.
            while calls_made == 0 or time.perf_counter() - start < seconds:
                call()
                calls_made += 1
            rates[name].append(calls_made * case.texts / (time.perf_counter() - start))
    return rates


def limits(model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Return the measured peak, and the bandwidth over the working set of encoding and of training."""
    dtype, seconds = DTYPES[model.precision], options.limit_seconds
    measured: dict[str, Any] = {
        "matmul_tflops": matmul_peak(dtype, seconds, model.device)
    }
    for what in options.whats:
        size = min(model.working_set(what), options.bandwidth_mib * 2**20)
        bandwidth = memory_bandwidth(size, seconds, model.device)
        measured[what] = {
            "working_set_bytes": size,
            "bandwidth_gb_per_s": max(bandwidth.values()),
        }
    return measured


def judge(case: dict[str, Any], peak: float) -> None:
    """Put figures into a case: texts a second, and the share of its limit at this peak in TFLOP/s."""
    memory = case["bandwidth_gb_per_s"] * 1e9 * case["flop"] / case["bytes"] / 1e12
    case["limit_tflops"], case["bound"] = min((peak, "products"), (memory, "memory"))
    sides = [case["ours"], case["theirs"]]
    case["ratio"] = statistics.median(
        a / b for a, b in zip(*(side["rounds"] for side in sides), strict=True)
    )
    for side in sides:
        side["texts_per_s"] = statistics.median(side["rounds"])
        calls = side["texts_per_s"] / case["texts"]
        side["tflops"] = calls * case["flop"] / 1e12
        side["gb_per_s"] = calls * case["bytes"] / 1e9
        side["share_of_limit"] = side["tflops"] / case["limit_tflops"]


def models(
    plugins: Plugins, options: argparse.Namespace
) -> Iterator[tuple[str, str, Path]]:
    """Yield family, size and the directory of the saved model, gone when the next one is asked for."""
    for family in options.families:
        cls: Any = plugins.load("backbone", family)
        sizes = get_args(attrs.fields(attrs.resolve_types(cls)).size.type)
        for size in options.sizes:
            size_name = NAMES.get(family, {}).get(size, size)
            if size_name is None:
                continue
            if size_name not in sizes:
                raise SystemExit(
                    f"`{family}` has no size `{size_name}`; it has {', '.join(sizes)}"
                )
            fields = {"init": "random", "size": size_name, **FIELDS.get(family, {})}
            recipe = EncoderRecipe(
                cls(**fields), plugins.load("pooler", "mean")(), max_length=16
            )
            engine = plugins.load("runtime", "cpu")(threads=options.threads).build()
            engine.seed(0)
            with tempfile.TemporaryDirectory() as name:
                built = Encoder.build(
                    recipe, engine, lambda: texts_of(64, 128)
                ).backbone
                built.save(Path(name))
                del built
                yield family, size, Path(name)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, printing as it goes; returns what `--json` writes."""
    plugins = load_plugins()
    fields = {} if options.threads is None else {"threads": options.threads}
    cases = [
        Case(what, length, batch)
        for what in options.whats
        for length in options.lengths
        for batch in options.batches
        # A step of one pair has no negative.
        if what == "encode" or batch > 1
    ]
    figures: dict[str, Any] = {"models": [], "cases": []}
    # On a machine that others use a peak may be missed: the best of the run holds for all.
    peaks: dict[str, float] = {}
    for family, size, directory in models(plugins, options):
        for precision in options.precision:
            runtime: Any = plugins.load("runtime", options.runtime)(
                precision=precision, **fields
            )
            model = Model(plugins, directory, family, runtime, max(options.lengths))
            if "machine" not in figures:
                figures["machine"] = machine(model, options)
            facts = {"family": family, "size": size, "precision": precision}
            limit = limits(model, options)
            peak = peaks[precision] = max(
                limit["matmul_tflops"], peaks.get(precision, 0.0)
            )
            difference = model.difference(min(options.lengths))
            if precision == "fp32" and not difference < 1e-3:
                raise SystemExit(
                    f"{family} {size}: vectors differ by {difference}: a comparison would be void"
                )
            sizes = {
                "weights": model.weights,
                "parameters": model.parameters,
                "difference": difference,
            }
            figures["models"].append({**facts, **sizes, "limit": limit})
            print(heading(facts, model, limit, difference))
            for case in cases:
                if case.what == "train" and not hasattr(model, "trainer"):
                    model.prepare_training()
                case_figures = {**facts, **attrs.asdict(case), "texts": case.texts}
                figures["cases"].append(case_figures)
                flop = case.flop(model.config)
                if (least := flop / peak / 1e12) > options.longest:
                    case_figures["left_out_least_seconds"] = least
                    print(f"{line(case)}  left out: {least:.1f} s a call at the peak")
                    continue
                rates = compare(model, case, options.rounds, options.seconds)
                case_figures |= {
                    name: {"rounds": rounds} for name, rounds in rates.items()
                }
                case_figures |= {
                    "flop": flop,
                    "bytes": case.bytes(model),
                    **limit[case.what],
                }
                judge(case_figures, peak)
                print(row(case, case_figures))
    for case_found in figures["cases"]:
        if "ours" in case_found:
            judge(case_found, peaks[case_found["precision"]])
    figures["peaks_tflops"] = peaks
    return figures


def machine(model: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured on: device, versions, and the bandwidth of memory behind all caches."""
    size = options.bandwidth_mib * 2**20
    names = ("torch", "transformers", "sentence-transformers")
    return {
        "engine": {**model.engine.describe()},
        "torch_threads": torch.get_num_threads(),
        "versions": {name: importlib.metadata.version(name) for name in names},
        "memory": {
            "working_set_bytes": size,
            "gb_per_s": memory_bandwidth(size, options.limit_seconds, model.device),
        },
        "settings": {
            key: value
            for key, value in vars(options).items()
            if not isinstance(value, Path)
        },
    }


def heading(
    facts: dict[str, str], model: Model, limit: dict[str, Any], difference: float
) -> str:
    """Return the lines above a model's cases."""
    bandwidth = (
        limit["encode"]["bandwidth_gb_per_s"] if "encode" in limit else float("nan")
    )
    return (
        f"\n{' '.join(facts.values())}: {model.weights / 1e6:.1f} M weights in layers, peak "
        f"{limit['matmul_tflops']:.2f} TFLOP/s, {bandwidth:.0f} GB/s over them, vectors differ by "
        f"{difference:.1e}\n{'':<7}{'length':>7}{'batch':>6}{'texts/s':>10}{'ratio':>7}{'TFLOP/s':>9}"
        f"{'limit':>8}{'share':>7}{'theirs':>8}  bound by"
    )


def line(case: Case) -> str:
    """Return how a case's row begins."""
    return f"{case.what:<7}{case.length:>7}{case.batch:>6}"


def row(case: Case, case_figures: dict[str, Any]) -> str:
    """Return a case's row."""
    ours, theirs = case_figures["ours"], case_figures["theirs"]
    return (
        f"{line(case)}{ours['texts_per_s']:>10.1f}{case_figures['ratio']:>7.2f}{ours['tflops']:>9.3f}"
        f"{case_figures['limit_tflops']:>8.2f}{ours['share_of_limit']:>7.0%}{theirs['share_of_limit']:>8.0%}  "
        f"{case_figures['bound']}"
    )


def listed(of: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return how to read `a,b,c`."""
    return lambda text: [of(part.strip()) for part in text.split(",")]


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--runtime", default="cpu", help="by its name in a recipe")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--families", type=listed(str), default=["bert", "t5", "opt"])
    parser.add_argument(
        "--sizes", type=listed(str), default=["tiny", "mini", "small", "base"]
    )
    parser.add_argument("--lengths", type=listed(int), default=[16, 32, 64, 128])
    parser.add_argument("--batches", type=listed(int), default=[1, 8, 64])
    parser.add_argument("--precision", type=listed(str), default=None)
    parser.add_argument(
        "--train", action="store_true", help="time training steps as well"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=0.1, help="a side and round; one call at least"
    )
    parser.add_argument(
        "--longest", type=float, default=0.2, help="seconds a call may take at the peak"
    )
    parser.add_argument(
        "--limit-seconds",
        type=float,
        default=0.5,
        help="for each limit that is measured",
    )
    parser.add_argument(
        "--bandwidth-mib",
        type=int,
        default=1536,
        help="beyond all caches of the machine",
    )
    parser.add_argument(
        "--plot", type=Path, default=None, help="also draw them here (.svg, .png)"
    )
    options = parser.parse_args(arguments)
    if options.precision is None:
        options.precision = (
            native_precisions() if options.runtime == "cpu" else ["fp32", "bf16"]
        )
    if wrong := set(options.precision) - set(DTYPES):
        raise SystemExit(
            f"`--precision` has {', '.join(sorted(wrong))}; choose among {', '.join(DTYPES)}"
        )
    if min(options.lengths) < 16:
        raise SystemExit(
            "`--lengths` has less than 16 tokens, in which texts need not differ; give 16 or more"
        )
    options.whats = ["encode", *(["train"] if options.train else [])]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        figures = measure(options)
    except SentbedError as error:
        raise SystemExit(str(error)) from error
    write_figures(figures, options.json)
    if options.plot is not None:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        for path in plot.draw(figures, options.plot):
            print(path)


if __name__ == "__main__":
    main()
