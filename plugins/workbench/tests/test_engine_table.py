from __future__ import annotations

from pathlib import Path

import sentbed
from sentbed.tools import load_plugins
from sentbed_workbench.engine_table import engine_rows

SCRATCH = Path(__file__).parents[3] / "recipes" / "scratch.toml"


def test_every_engine_has_a_row_and_one_that_is_not_here_its_reason():
    head, *rows = engine_rows(sentbed.load_recipe(SCRATCH), load_plugins())
    assert head == ("runtime", "texts/s", "cosine", "scores")
    by_name = {row[0]: row[1:] for row in rows}
    speed, cosine, scores = by_name["cpu fp32"]
    assert int(speed.replace(",", "")) > 0
    assert cosine == "1.0000"
    assert "+0.00" in scores
    assert by_name["cuda fp32"][:2] == ("-", "-")
