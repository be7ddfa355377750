"""Time of a causal backbone by the layer that is read: layer k of n is to take k / n of all blocks' time.

    python benchmarks/early_exit.py [--rounds 60] [--json FILE]

Random weights, 24 blocks of width 128, fp32. Each round runs all depths in turn, since a shared machine
drifts, and of each depth the least processor time counts. What depth 0 takes, the embedding alone, is taken
off.
"""

from __future__ import annotations

import time
from typing import Any

import torch
import transformers
from common import parser_of, write_figures
from sentbed_backbones._torch.token_states import CausalStates

BLOCKS = 24
DEPTHS = (0, 6, 12, 18, BLOCKS)


def passes() -> dict[int, Any]:
    """Return depth -> module that reads the states after this many blocks."""
    config = transformers.LlamaConfig(
        vocab_size=320,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=BLOCKS,
        num_attention_heads=4,
    )
    model: Any = transformers.LlamaModel(config)
    model.eval()
    modules: dict[int, Any] = {}
    for depth in DEPTHS:
        # The whole model needs no early end.
        last = None if depth == BLOCKS else depth
        modules[depth] = CausalStates(model, last is not None, last)
    return modules


@torch.no_grad()
def shares_of_time(rounds: int) -> dict[int, float]:
    """Return depth -> time of its blocks as a share of all blocks' time."""
    modules = passes()
    ids = torch.randint(3, 320, (4, 32))
    least = dict.fromkeys(DEPTHS, float("inf"))
    for _ in range(rounds):
        for depth, module in modules.items():
            start = time.process_time()
            module(ids, None)
            least[depth] = min(least[depth], time.process_time() - start)
    whole = least[BLOCKS] - least[0]
    return {depth: (least[depth] - least[0]) / whole for depth in DEPTHS}


def main() -> None:
    """Run the benchmark and print its table."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(f"{'blocks':>8}{'share of them':>15}{'share of time':>15}")
    figures = shares_of_time(options.rounds)
    for depth, share in figures.items():
        print(f"{depth:>8}{depth / BLOCKS:>15.3f}{share:>15.3f}")
    write_figures(figures, options.json)


if __name__ == "__main__":
    main()
