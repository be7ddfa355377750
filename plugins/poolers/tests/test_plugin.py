from __future__ import annotations

import re
from pathlib import Path

import sentbed_poolers


def test_the_readme_lists_the_poolers_in_their_order():
    text = (Path(__file__).parent.parent / "README.md").read_text()
    table = re.findall(
        r"^\| `([\w-]+)` \|", text.partition("## Install")[0], re.MULTILINE
    )
    assert table == [
        *sentbed_poolers.poolers(),
        *sentbed_poolers.similarities(),
        *sentbed_poolers.transforms(),
    ]
