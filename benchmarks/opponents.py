"""Speed and scores of sentence-transformers, ONNX Runtime and OpenVINO beside sentbed, on a processor.

    SENTBED_DATA=... make opponents
    SENTBED_DATA=... PYTHONPATH=.venv/opponents .venv/bin/python benchmarks/opponents.py [--rounds 3]
        [--sentences 2000] [--threads N] [--tasks STSB STSB-dev SICKR | all] [--json FILE]

All encode with MiniLM, on the same threads, in this process. The first row is sentence-transformers as it
comes (fp32, batches of 32); all others get sentbed's batches: texts sorted by length, a budget of tokens.
A round times each row once, in turn; a ratio is taken within a round, because a shared machine drifts, and
the table has the median of the rounds. Every row has encoded the same texts before the first round: OpenVINO
and oneDNN compile for each shape.

int8 of OpenVINO is calibrated on sentences of STS-B's training set. `2 streams` means that OpenVINO computes
two batches at a time with half of the threads each, the setting it advises for throughput. Scores are
Spearman correlations x 100 of SentEval's tasks; cosines are between a row's vectors of these tasks' sentences
and those of the first row.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np
import sentence_transformers
import torch
import transformers
from common import rates_in_turn, sentences
from encode import MODEL
from numpy.typing import NDArray
from opponent_engines import (
    Batched,
    VectorsOf,
    batch,
    onnx_runtime_vectors,
    openvino_model,
    openvino_vectors,
    quantize_onnx,
    quantize_openvino,
    sentence_transformers_vectors,
    write_onnx,
)
from sentbed import Encoder, SentbedError, locate
from sentbed.protocols import Prepared, TextEncoder
from sentbed_evaluators.senteval_sts import SentEvalSTS

MAX_LENGTH = 256
CALIBRATION = 300
"""Sentences that static quantisation is calibrated on, as many as optimum takes."""
TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSB", "STSB-dev", "SICKR")
VERSIONS = (
    "torch",
    "transformers",
    "sentence-transformers",
    "onnxruntime",
    "openvino",
    "nncf",
)

Encode: TypeAlias = Callable[[list[str]], NDArray[np.float32]]


@attrs.frozen
class Known(TextEncoder):
    """Vectors that were computed before, as an evaluation sees them."""

    vectors: Mapping[str, NDArray[np.float32]]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per text."""
        return np.stack([self.vectors[text] for text in texts])


def ours(precision: str, threads: int | None) -> Encoder:
    """Build MiniLM on the runtime `cpu`.

    Raises:
        SentbedError, ValueError: if the runtime or the processor has no such precision.
    """
    runtime = {"use": "cpu", "precision": precision} | (
        {} if threads is None else {"threads": threads}
    )
    table = {
        "backbone": {"use": "bert", "model": MODEL},
        "pooler": {"use": "mean"},
        "head": {"normalize": True},
        "max_length": MAX_LENGTH,
    }
    encoder = Encoder.of(table, runtime)
    if (found := encoder.engine.describe()["precision"]) != precision:
        raise ValueError(
            f"the runtime took `precision = {precision!r}` and computes in {found}"
        )
    return encoder


def opponents(
    fp32: Encoder, calibration: Sequence[str], bf16: bool
) -> Iterator[tuple[str, Encode]]:
    """Yield sentence-transformers as it comes, and all others behind the batches of `fp32`."""
    folder, threads = locate(MODEL), torch.get_num_threads()
    tokenizer = fp32.backbone.tokenizer

    def batched(vectors_of: VectorsOf) -> Batched:
        return Batched(tokenizer, fp32.engine.token_budget, MAX_LENGTH, vectors_of)

    def reference(dtype: torch.dtype) -> Any:
        model = sentence_transformers.SentenceTransformer(
            str(folder), device="cpu", model_kwargs={"dtype": dtype}
        )
        model.max_seq_length = MAX_LENGTH
        return model

    theirs = reference(torch.float32)
    yield (
        "sentence-transformers fp32",
        lambda texts: theirs.encode(
            texts, normalize_embeddings=True, show_progress_bar=False
        ),
    )
    yield "  the same, sorted batches", batched(sentence_transformers_vectors(theirs))
    if bf16:
        yield (
            "  bf16, sorted batches",
            batched(sentence_transformers_vectors(reference(torch.bfloat16))),
        )
    for distribution, rows in (
        ("onnxruntime", _onnx_runtime),
        ("openvino", _openvino),
        ("nncf", _nncf),
    ):
        try:
            importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            print(
                f"without {distribution}: not installed; run `make opponents`, which installs it"
            )
            continue
        tokens = tokenizer.encode(calibration, MAX_LENGTH)
        alone = [
            batch(tokens, np.array([row]), tokenizer.pad_id)
            for row in range(len(tokens))
        ]
        for name, vectors_of in rows(folder, threads, bf16, alone):
            yield name, batched(vectors_of)


def _onnx_runtime(
    folder: Path, threads: int, *_: Any
) -> Iterator[tuple[str, VectorsOf]]:
    with tempfile.TemporaryDirectory() as name:
        graph, int8 = Path(name, "fp32.onnx"), Path(name, "int8.onnx")
        write_onnx(folder, graph)
        yield "ONNX Runtime fp32", onnx_runtime_vectors(graph, threads)
        quantize_onnx(graph, int8)
        yield "ONNX Runtime int8", onnx_runtime_vectors(int8, threads)


def _openvino(
    folder: Path, threads: int, bf16: bool, _: Any
) -> Iterator[tuple[str, VectorsOf]]:
    model = openvino_model(folder)
    for name, precision in (("fp32", "f32"), *([("bf16", "bf16")] if bf16 else [])):
        yield from _streams(f"OpenVINO {name}", model, threads, precision)


def _nncf(
    folder: Path, threads: int, _: bool, calibration: Any
) -> Iterator[tuple[str, VectorsOf]]:
    yield from _streams(
        "OpenVINO int8", quantize_openvino(openvino_model(folder), calibration), threads
    )


def _streams(
    name: str, model: Any, threads: int, precision: str | None = None
) -> Iterator[tuple[str, VectorsOf]]:
    yield name, openvino_vectors(model, threads, 1, precision)
    if threads > 1:
        yield (
            f"{name}, {threads} streams",
            openvino_vectors(model, threads, threads, precision),
        )


def rows(threads: int | None, calibration: Sequence[str]) -> dict[str, Encode]:
    """Build every row of the table, sentbed's last; says which cannot be, and why."""
    fp32 = ours("fp32", threads)
    own: dict[str, Encode] = {"sentbed fp32": fp32.encode}
    for precision in ("bf16", "int8"):
        try:
            own[f"sentbed {precision}"] = ours(precision, threads).encode
        except (SentbedError, ValueError) as error:
            print(f"without sentbed {precision}: {' '.join(str(error).split())}")
    return {**dict(opponents(fp32, calibration, "sentbed bf16" in own)), **own}


def ratio(rates: Sequence[float], base: Sequence[float]) -> float:
    """Return the median of the ratios within the rounds."""
    return statistics.median(a / b for a, b in zip(rates, base, strict=True))


def scored(
    found: Mapping[str, Encode], prepared: Prepared
) -> dict[str, dict[str, Any]]:
    """Return scores by task, and cosines to the first row's vectors, of each row."""
    texts = list(
        dict.fromkeys(text for part in prepared.lists.values() for text in part.both)
    )
    results: dict[str, dict[str, Any]] = {}
    exact: NDArray[np.float32] | None = None
    for name, encode in found.items():
        print(f"scores of {name.strip()} ...", file=sys.stderr)
        vectors = encode(texts)
        exact = vectors if exact is None else exact
        cosines = (vectors * exact).sum(1)
        evaluation = prepared.evaluate(Known(dict(zip(texts, vectors, strict=True))))
        scores = {
            score.task: score.value
            for score in evaluation.scores
            if score.metric == "spearman"
        }
        results[name] = {
            "scores": scores,
            "cosine_mean": float(cosines.mean()),
            "cosine_least": float(cosines.min()),
        }
    return results


def processor() -> dict[str, Any]:
    """Return the name of the processor and those of its instruction sets that such products use."""
    found = torch.cpu.get_capabilities()
    sets = [
        key for key in sorted(found) if key.startswith(("avx", "amx")) and found[key]
    ]
    return {
        "name": found.get("cpu_name", platform.processor()),
        "instruction_sets": sets,
    }


def sampled(texts: Sequence[str], count: int, seed: int) -> list[str]:
    """Return a random sample without repetition, or all texts if there are fewer."""
    return [
        texts[row]
        for row in np.random.default_rng(seed).permutation(len(texts))[:count]
    ]


def show(figures: Mapping[str, Any]) -> None:
    """Print the table."""
    tasks = list(next(iter(figures["rows"].values()))["scores"])
    heads = "".join(f"{task:>10}" for task in tasks)
    print(f"\n{'':<28}{'sentences/s':>12}{'ratio':>7}{heads}{'cosine':>9}{'least':>9}")
    for name, row in figures["rows"].items():
        values = "".join(f"{value:>10.2f}" for value in row["scores"].values())
        print(
            f"{name:<28}{statistics.median(row['rates']):>12.0f}{row['ratio']:>7.2f}{values}"
            f"{row['cosine_mean']:>9.5f}{row['cosine_least']:>9.5f}"
        )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything; returns what `--json` writes."""
    every = "all" in options.tasks
    evaluator = SentEvalSTS(
        tasks=TASKS if every else tuple(options.tasks), skip_missing=every
    )
    prepared = evaluator.prepare()
    training = SentEvalSTS(tasks=("STSB-train",)).prepare().lists["STSB-train"].both
    texts = sampled(sentences(), options.sentences, 0)
    found = rows(
        options.threads, sampled(list(dict.fromkeys(training)), CALIBRATION, 1)
    )
    machine = processor()
    print(
        f"{machine['name']} ({', '.join(machine['instruction_sets'])}), {torch.get_num_threads()} threads"
    )
    print(f"{len(texts)} sentences, {options.rounds} rounds")
    results = scored(found, prepared)
    before = os.getloadavg()[0]
    rates = rates_in_turn(found, texts, options.rounds)
    base = next(iter(rates.values()))
    for name, result in results.items():
        result |= {"rates": rates[name], "ratio": ratio(rates[name], base)}
    installed = {
        distribution.name for distribution in importlib.metadata.distributions()
    }
    return {
        "machine": machine
        | {"threads": torch.get_num_threads(), "load_before": before},
        "versions": {
            name: importlib.metadata.version(name)
            for name in VERSIONS
            if name in installed
        },
        "sentences": len(texts),
        "rows": results,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--sentences", type=int, default=2000, help="a random sample of this size"
    )
    parser.add_argument(
        "--threads", type=int, default=None, help="default: those of the runtime `cpu`"
    )
    parser.add_argument(
        "--tasks",
        nargs="+",
        default=["STSB", "STSB-dev", "SICKR"],
        metavar="TASK",
        help="`all`: those at hand",
    )
    parser.add_argument(
        "--json", type=Path, default=None, help="also write the figures here"
    )
    options = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        figures = measure(options)
    except SentbedError as error:
        raise SystemExit(str(error)) from error
    show(figures)
    print(f"load average before the rounds: {figures['machine']['load_before']:.1f}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
