from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import sentbed_poolers
from sentbed_testing import offered


def test_the_entry_point_names_the_package() -> None:
    found = [
        point.value
        for point in entry_points(group="sentbed")
        if point.dist.name == "sentbed-poolers"
    ]
    assert found == ["sentbed_poolers"]


def test_the_hook_offers_the_poolers_by_name() -> None:
    assert list(sentbed_poolers.poolers()) == [
        "first",
        "cls-mlp",
        "mean",
        "mean-first-last",
        "weighted-mean",
        "latent-attention",
        "last",
        "decoder",
        "mask",
        "mask-mlp",
        "prompt",
        "prompt-eol",
        "splade",
        "tokens",
    ]


def test_the_hook_offers_the_transforms_by_name() -> None:
    assert list(sentbed_poolers.transforms()) == ["embed-filter", "whitening"]


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


def test_calling_the_hook_loads_no_heavy_library_and_building_does() -> None:
    code = (
        "import sys, sentbed_poolers\n"
        "from sentbed_testing import offered\n"
        "built = [pooler() for pooler in offered(sentbed_poolers.poolers())]\n"
        "assert len(built) == 13\n"
        "assert len(offered(sentbed_poolers.transforms())) == 2\n"
        "assert len(offered(sentbed_poolers.similarities())) == 5\n"
        "heavy = {'torch', 'transformers', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "built[0].build(4)\n"
        "assert 'torch' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
