"""PromptEOL with a demonstration: sentences a second with the prompt's beginning computed once, and without.

    SENTBED_DATA=... python benchmarks/prefix.py [--rounds 3] [--sentences 2000] [--json FILE]

An OPT of 125M size with random weights and a vocabulary trained on the sentences encodes real STS sentences.
Every round runs, in this process and in this order: without reuse, with reuse; first in fp32, then in
bf16, if the processor has it. The ratio of each round is taken within the round, because a shared machine
drifts.
"""

from __future__ import annotations

import statistics
from typing import Any

import attrs
import numpy as np
import torch
from common import (
    DTYPES,
    matmul_peak,
    native_precisions,
    parser_of,
    sentences,
    timed,
    write_figures,
)
from sentbed import Encoder
from sentbed.protocols import EncoderRecipe
from sentbed.tools import load_plugins
from sentbed_poolers.template_prompt import Demonstration, TemplatePrompt

DEMONSTRATION = Demonstration("A jockey riding a horse.", "Equestrian")


def encoders(texts: list[str], precision: str) -> dict[str, Encoder]:
    """Build one encoder twice, with and without reuse of the prefix."""
    plugins = load_plugins()
    backbone = plugins.load("backbone", "opt")(
        init="random", size="125m", vocab_size=50265
    )
    prompt = TemplatePrompt(demonstration=DEMONSTRATION)
    recipe = EncoderRecipe(
        backbone,
        plugins.load("pooler", "prompt-eol")(),
        max_length=64,
        prompt=prompt,
    )
    engine = plugins.load("runtime", "cpu")(precision=precision).build()
    engine.seed(0)
    reusing = Encoder.build(recipe, engine, lambda: texts)
    placed: Any = engine.assemble(reusing.backbone, recipe.pooler, recipe.head)
    placed.shares_prefix = False
    return {
        "without reuse": attrs.evolve(reusing, placed=placed),
        "with reuse": reusing,
    }


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--sentences", type=int, default=2000, help="a random sample of this size"
    )
    options = parser.parse_args()
    everything = sentences()
    chosen = np.random.default_rng(0).permutation(len(everything))[: options.sentences]
    texts = [everything[i] for i in chosen]
    figures: dict[str, Any] = {"sentences": len(texts)}
    print(f"{'':<22}{'sentences/s':>12}{'ratio':>8}{'TFLOP/s':>9}{'peak':>7}")
    for precision in native_precisions():
        both = encoders(everything, precision)
        tokens = both["with reuse"].tokenizer().encode(texts, 64)
        bare = both["with reuse"].backbone.tokenizer.encode(
            [str(DEMONSTRATION.text)], 64
        )
        figures.setdefault("tokens", float(tokens.lengths.mean()))
        figures.setdefault(
            "tokens of the demonstration's sentence", int(bare.lengths[0])
        )
        for encoder in both.values():
            encoder.encode(texts[:128])
        peak = matmul_peak(DTYPES[precision])
        rates: dict[str, list[float]] = {name: [] for name in both}
        vectors: dict[str, Any] = {}
        for _ in range(options.rounds):
            for name, encoder in both.items():
                rate, vectors[name] = timed(encoder.encode, texts)
                rates[name].append(rate)
        plain, reused = rates.values()
        ratio = statistics.median(b / a for a, b in zip(plain, reused, strict=True))
        placed: Any = both["without reuse"].placed
        weights = sum(
            p.numel()
            for name, p in placed.module.named_parameters()
            if ".layers." in name
        )
        for name, rates_of_name in rates.items():
            rate = statistics.median(rates_of_name)
            # What the plain way computes: with reuse most of it is not computed at all.
            speed = rate * 2 * weights * float(tokens.lengths.mean()) / 1e12
            shown = f"{speed:>9.3f}{peak:>7.2f}" if name == "without reuse" else ""
            print(
                f"{precision + ' ' + name:<22}{rate:>12.0f}{ratio if shown == '' else 1:>8.2f}{shown}"
            )
        difference = float(
            np.abs(vectors["with reuse"] - vectors["without reuse"]).max()
        )
        largest = float(np.abs(vectors["without reuse"]).max())
        print(
            f"{precision}: largest difference {difference:.1e}, largest value {largest:.2f}"
        )
        figures[precision] = {
            "rates": rates,
            "ratio": ratio,
            "peak_tflops": peak,
            "difference": difference,
        }
    print(
        f"{len(texts)} sentences, {figures['tokens']:.1f} tokens a prompt, {torch.get_num_threads()} threads"
    )
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
