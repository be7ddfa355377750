"""sentence-transformers beside sentbed on a GPU: texts a second of one BERT, tokenised and encoded, in turn.

    python benchmarks/gpu_opponents.py [--size base] [--texts 20000] [--rounds 3] [--precision bf16 fp32]
                                       [--device cuda] [--json FILE]

The model has random weights and a tokenizer trained on the texts: 3 to 59 words of 2 to 7 letters, drawn with
one seed. sentbed saves it and exports it as a sentence-transformers folder, so both load the same weights. A
round times each row once; a figure is the median of the rounds. The least cosine between the
vectors of both says that they compute the same.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sentence_transformers
import torch
import transformers
from common import DTYPES, parser_of, rates_in_turn, write_figures
from numpy.typing import NDArray
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe, Head
from sentbed.tools import load_plugins
from sentbed_interop.export_and_import import export_encoder

VOCABULARY = 8000
MAX_LENGTH = 128
LETTERS = list("abcdefghijklmnop")
BATCH_SIZES = (32, 256)
"""Batch sizes of sentence-transformers: its default, and one that fills a GPU."""


def draw_texts(count: int) -> list[str]:
    """Return texts of 3 to 59 words of a vocabulary of 4,000."""
    generator = np.random.default_rng(0)
    words = []
    for _ in range(4000):
        letters = generator.choice(LETTERS, generator.integers(2, 8))
        words.append("".join(letters))
    texts = []
    for _ in range(count):
        drawn = generator.choice(words, generator.integers(3, 60))
        texts.append(" ".join(drawn))
    return texts


def save_random_encoder(directory: Path, size: str, texts: list[str]) -> None:
    """Save a BERT of random weights with mean pooling as sentbed's `saved` and the exported `folder`."""
    plugins = load_plugins()
    backbone: Any = plugins.load("backbone", "bert")(
        init="random", size=size, vocab_size=VOCABULARY
    )
    pooler: Any = plugins.load("pooler", "mean")()
    engine: Any = plugins.load("runtime", "cpu")().build()
    engine.seed(0)
    recipe = EncoderRecipe(backbone, pooler, Head(normalize=True), MAX_LENGTH)
    Encoder.build(recipe, engine, lambda: texts).save(directory / "saved")
    export_encoder(directory / "saved", directory / "folder", "sentence-transformers")


def least_cosine(left: NDArray[np.float32], right: NDArray[np.float32]) -> float:
    """Return the least cosine between rows of two arrays of texts x width."""
    products = (left * right).sum(1)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return float((products / lengths).min())


def measure(
    directory: Path, texts: list[str], precision: str, device: str, rounds: int
) -> dict[str, Any]:
    """Return texts a second of each row, medians of rounds in turn, and the least cosine."""
    ours = Encoder.load(directory / "saved", {"use": device, "precision": precision})
    theirs = sentence_transformers.SentenceTransformer(
        str(directory / "folder"),
        device=device,
        model_kwargs={"dtype": DTYPES[precision]},
    )

    def encode_in_batches_of(size: int) -> Callable[[list[str]], NDArray[np.float32]]:
        def encode(batch: list[str]) -> NDArray[np.float32]:
            vectors = theirs.encode(batch, batch_size=size, show_progress_bar=False)
            return np.asarray(vectors, np.float32)

        return encode

    rows: dict[str, Callable[[list[str]], Any]] = {"sentbed": ours.encode}
    for size in BATCH_SIZES:
        rows[f"sentence-transformers, batches of {size}"] = encode_in_batches_of(size)
    vectors = [encode(texts) for encode in rows.values()]
    rates = rates_in_turn(rows, texts, rounds)
    return {
        "precision": precision,
        "texts_per_s": {
            name: statistics.median(values) for name, values in rates.items()
        },
        "least_cosine": min(least_cosine(vectors[0], other) for other in vectors[1:]),
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument(
        "--size", default="base", help="of the BERT: tiny, mini, base, large"
    )
    parser.add_argument("--texts", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--precision", nargs="+", choices=list(DTYPES), default=["bf16", "fp32"]
    )
    parser.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu tries the path out",
    )
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    texts = draw_texts(options.texts)
    cases = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        save_random_encoder(directory, options.size, texts[:5000])
        for precision in options.precision:
            case = measure(directory, texts, precision, options.device, options.rounds)
            cases.append(case)
            print(f"{precision}: least cosine {case['least_cosine']:.6f}")
            for row, rate in case["texts_per_s"].items():
                print(f"    {row:<40}{rate:>10.1f} texts/s")
    versions = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence-transformers": sentence_transformers.__version__,
    }
    figures = {
        "versions": versions,
        "size": options.size,
        "texts": options.texts,
        "cases": cases,
    }
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
