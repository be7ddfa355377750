from __future__ import annotations

import re
from pathlib import Path

import sentbed_poolers
from sentbed_testing import offered


def test_each_pooler_says_what_it_needs() -> None:
    assert {
        pooler.name: set(pooler().traits.needs)
        for pooler in offered(sentbed_poolers.poolers())
    } == {
        "first": {"bidirectional"},
        "cls-mlp": {"bidirectional"},
        "mean": set(),
        "mean-first-last": {"layers"},
        "weighted-mean": set(),
        "latent-attention": set(),
        "last": set(),
        "decoder": {"decoder"},
        "mask": {"mask-token", "template"},
        "mask-mlp": {"mask-token", "template"},
        "prompt": {"causal", "template"},
        "prompt-eol": {"causal", "template"},
        "splade": {"logits"},
        "tokens": set(),
    }


def test_the_readme_lists_the_poolers_in_their_order() -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text()
    table = re.findall(
        r"^\| `([\w-]+)` \|", text.partition("## Install")[0], re.MULTILINE
    )
    assert table == [
        *sentbed_poolers.poolers(),
        *sentbed_poolers.similarities(),
        *sentbed_poolers.transforms(),
    ]
