"""Speed and scores of sentence-transformers and of the runtimes `cpu`, `onnxruntime` and `openvino`.

    SENTBED_DATA=... make opponents
    SENTBED_DATA=... .venv/bin/python benchmarks/opponents.py [--rounds 3] [--sentences 2000] [--threads N]
        [--tasks STSB STSB-dev SICKR | all] [--only TEXT ...] [--json FILE]

All encode with MiniLM, on the same threads, in this process. The first row is sentence-transformers as it
comes (fp32, batches of 32); all others get sentbed's batches: texts sorted by length, a budget of tokens.
A round times each row once, in turn; a ratio is taken within a round, because a shared machine drifts, and
the table has the median of the rounds. Every row has encoded the same texts before the first round: OpenVINO
and oneDNN compile for each shape.

Streams are batches at a time, each on its share of the threads. Scores are Spearman correlations x 100 of
SentEval's tasks; below each other they are shown as differences from those of the first row. Cosines are
between a row's vectors of these tasks' sentences and those of the first row.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import sentence_transformers
import torch
import transformers
from common import parser_of, rates_in_turn, sentences, write_figures
from encode import MODEL
from numpy.typing import NDArray
from sentbed import Encoder, SentbedError, locate
from sentbed.helpers import pad, plan_batches, usable_cores
from sentbed.protocols import ANY_TASK, Prepared, TextEncoder, TextTask
from sentbed_common import processor_capabilities
from sentbed_evaluators.sts import SentEvalSTS

MAX_LENGTH = 256
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "STSB-dev", "SICKR")
LIBRARIES = (
    "torch",
    "transformers",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "nncf",
)
RUNTIMES = {
    "cpu": ("fp32", "bf16"),
    "onnxruntime": ("fp32", "int8"),
    "openvino": ("fp32", "bf16", "int8"),
}
"""Their precisions."""

IN_STREAMS = ("openvino",)
"""Runtimes that compute several batches at a time."""

Encode: TypeAlias = Callable[[list[str]], NDArray[np.float32]]


@attrs.frozen
class Known(TextEncoder):
    """Vectors that were computed before, as an evaluation sees them."""

    vectors: Mapping[str, NDArray[np.float32]]

    def encode(
        self, texts: Sequence[str], task: TextTask = ANY_TASK
    ) -> NDArray[np.float32]:
        """Return one row per text."""
        return np.stack([self.vectors[text] for text in texts])


@attrs.frozen(eq=False)
class Batched:
    """A model of sentence-transformers behind the tokenizer and the batches of an encoder of sentbed."""

    model: Any
    encoder: Encoder

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one unit vector per text, `(texts, width)`."""
        tokenizer = self.encoder.backbone.tokenizer
        tokens = tokenizer.encode(texts, MAX_LENGTH)
        vectors = np.empty((len(texts), self.encoder.width), np.float32)
        for rows in plan_batches(tokens.lengths, self.encoder.engine.token_budget):
            vectors[rows] = self._encoded(pad(tokens, rows, tokenizer.pad_id))
        return vectors

    def _encoded(self, batch: Any) -> NDArray[np.float32]:
        ids = torch.from_numpy(batch.input_ids)
        mask = torch.ones_like(ids)
        if batch.attention_mask is not None:
            mask = torch.from_numpy(batch.attention_mask)
        with torch.inference_mode():
            output = self.model({"input_ids": ids, "attention_mask": mask})
            sentence_vectors = output["sentence_embedding"].float()
            vectors: NDArray[np.float32] = torch.nn.functional.normalize(
                sentence_vectors, dim=1
            ).numpy()
        return vectors


def minilm(runtime: Mapping[str, Any]) -> Encoder:
    """Build MiniLM on a runtime, and compile it.

    Raises:
        SentbedError: if the runtime is not installed, or the processor has no such precision.
    """
    table = {
        "backbone": {"use": "bert", "model": MODEL},
        "pooler": {"use": "mean"},
        "head": {"normalize": True},
        "max_length": MAX_LENGTH,
    }
    encoder = Encoder.of(table, dict(runtime))
    encoder.encode(["Is it there?"])
    return encoder


def on_runtimes(threads: int) -> Iterator[tuple[str, Encode]]:
    """Yield each runtime in each precision, with one stream and one per thread; print why others are skipped."""
    for runtime, precisions in RUNTIMES.items():
        streams: tuple[int | None, ...] = (None,)
        if runtime in IN_STREAMS:
            streams = (1,) if threads == 1 else (1, threads)
        for precision in precisions:
            for count in streams:
                settings = {"use": runtime, "precision": precision, "threads": threads}
                name = f"{runtime} {precision}"
                if count is not None:
                    settings["streams"] = count
                    name = f"{name}, {count} streams"
                try:
                    encoder = minilm(settings)
                except SentbedError as error:
                    print(f"without {name}: {' '.join(str(error).split())}")
                    continue
                yield name.replace(", 1 streams", ""), encoder.encode


def of_sentence_transformers(fp32: Encoder) -> Iterator[tuple[str, Encode]]:
    """Yield sentence-transformers as it comes, and its model on the batches of `fp32`."""
    folder = str(locate(MODEL))

    def model(dtype: torch.dtype) -> Any:
        loaded = sentence_transformers.SentenceTransformer(
            folder, device="cpu", model_kwargs={"dtype": dtype}
        )
        loaded.max_seq_length = MAX_LENGTH
        return loaded

    theirs = model(torch.float32)

    def encode(texts: list[str]) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = theirs.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors

    yield "sentence-transformers fp32", encode
    yield "  the same, sorted batches", Batched(theirs, fp32)
    if fp32.engine.describe()["bf16_instructions"]:
        yield "  bf16, sorted batches", Batched(model(torch.bfloat16), fp32)


def rows(threads: int, only: Sequence[str]) -> dict[str, Encode]:
    """Build the rows of the table: the first, and those whose names contain one of `only`, or all."""
    fp32 = minilm({"use": "cpu", "threads": threads})
    (name, reference), *others = of_sentence_transformers(fp32)
    encoders = {name: reference}
    for name, encode in (*others, *on_runtimes(threads)):
        if not only or any(text in name for text in only):
            encoders[name] = encode
    return encoders


def ratio(rates: Sequence[float], base: Sequence[float]) -> float:
    """Return the median of the ratios within the rounds."""
    return statistics.median(a / b for a, b in zip(rates, base, strict=True))


def scored(
    encoders: Mapping[str, Encode], prepared: Prepared
) -> dict[str, dict[str, Any]]:
    """Return scores by task, and cosines to the first row's vectors, of each row."""
    both = [text for part in prepared.lists.values() for text in part.both]
    texts = list(dict.fromkeys(both))
    results: dict[str, dict[str, Any]] = {}
    exact: NDArray[np.float32] | None = None
    for name, encode in encoders.items():
        print(f"scores of {name.strip()} ...", file=sys.stderr)
        vectors = encode(texts)
        if exact is None:
            exact = vectors
        cosines = (vectors * exact).sum(1)
        evaluation = prepared.evaluate(Known(dict(zip(texts, vectors, strict=True))))
        results[name] = {
            "scores": {
                score.task: score.value
                for score in evaluation.scores
                if score.metric == "spearman"
            },
            "cosine_mean": float(cosines.mean()),
            "cosine_least": float(cosines.min()),
        }
    return results


def processor() -> dict[str, Any]:
    """Return the name of the processor and those of its instruction sets that such products use."""
    capabilities = processor_capabilities()
    instruction_sets = []
    for name, value in sorted(capabilities.items()):
        if value is True and name.startswith(("avx", "amx")):
            instruction_sets.append(name)
    return {
        "name": capabilities.get("cpu_name", platform.processor()),
        "instruction_sets": instruction_sets,
    }


def sampled(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Return a random sample without repetition, or all texts if there are fewer."""
    rows = np.random.default_rng(seed).permutation(len(texts))[:count]
    return [texts[row] for row in rows]


def show(results: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the table: scores of the first row, and the other rows' differences from them."""
    first = next(iter(results))
    base = results[first]["scores"]
    heads = "".join(f"{task:>10}" for task in base)
    print(f"\n{'':<28}{'sentences/s':>12}{'ratio':>7}{heads}{'cosine':>9}{'least':>9}")
    for name, row in results.items():
        speed = f"{statistics.median(row['rates']):>12.0f}{row['ratio']:>7.2f}"
        scores = ""
        for task, value in row["scores"].items():
            if name == first:
                scores += f"{value:>10.2f}"
            else:
                scores += f"{value - base[task]:>+10.2f}"
        cosines = f"{row['cosine_mean']:>9.5f}{row['cosine_least']:>9.5f}"
        print(f"{name:<28}{speed}{scores}{cosines}")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; returns what `--json` writes."""
    every = "all" in options.tasks
    tasks = TASKS if every else tuple(options.tasks)
    prepared = SentEvalSTS(tasks=tasks, skip_missing=every).prepare()
    texts = sampled(sentences(), options.sentences, 0)
    machine = processor()
    sets = ", ".join(machine["instruction_sets"])
    print(f"{machine['name']} ({sets}), {options.threads} threads")
    print(f"{len(texts)} sentences, {options.rounds} rounds")

    encoders = rows(options.threads, options.only)
    results = scored(encoders, prepared)
    load = os.getloadavg()[0]
    rates = rates_in_turn(encoders, texts, options.rounds)
    base = next(iter(rates.values()))
    for name, result in results.items():
        result |= {"rates": rates[name], "ratio": ratio(rates[name], base)}

    distributions = importlib.metadata.distributions()
    versions = {
        distribution.name: distribution.version for distribution in distributions
    }
    return {
        "machine": machine | {"threads": options.threads, "load_before": load},
        "versions": {name: versions[name] for name in LIBRARIES if name in versions},
        "sentences": len(texts),
        "rows": results,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--sentences", type=int, default=2000, help="a random sample of this size"
    )
    parser.add_argument(
        "--threads", type=int, default=usable_cores(), help="default: all cores"
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=["STSB", "STSB-dev", "SICKR"],
        metavar="TASK",
        help="`all`: those at hand",
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="TEXT",
        help="besides the first row, those whose name has one of these texts",
    )
    options = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        figures = measure(options)
    except SentbedError as error:
        raise SystemExit(str(error)) from error
    show(figures["rows"])
    load = figures["machine"]["load_before"]
    print(f"load average before the rounds: {load:.1f}")
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
