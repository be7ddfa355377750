"""The plugin in a run: its files, and the sections of other plugins."""

from __future__ import annotations

import re
from importlib.metadata import distribution

import attrs
import pytest
from sentbed import load_recipe, run
from sentbed.tools import load_plugins
from sentbed_common import item_score
from sentbed_report.score_items import attach_items
from toy_plugin import RECIPE


@pytest.fixture
def plugins(toy_points):
    """The toy plugin, core's trackers and this distribution."""
    report = distribution("sentbed-report").entry_points.select(group="sentbed")
    return load_plugins(dict.fromkeys([*toy_points, *report]))


@pytest.fixture
def load(put, plugins):
    return lambda text: load_recipe(put("recipe.toml", text), plugins=plugins)


def test_a_run_keeps_its_items_and_says_how_sure_its_scores_are(
    load, plugins, tmp_path
):
    text = RECIPE.replace('use = "gap"', 'use = "nearness"')
    out = tmp_path / "out"
    result = run(load(text), out, plugins)

    assert result.report == out / "report.html"

    before, _, after, _ = (attrs.evolve(score, items=None) for score in result.scores)
    kept = attach_items(out, (before, after))

    assert [item_score(score.items) for score in kept if score.items] == [
        before.value,
        after.value,
    ]

    assert re.search(r"\| \S+ to \S+ \|", (out / "report.md").read_text())
    assert (out / "tables" / "nearness.md").is_file()


def test_the_page_has_the_sections_of_other_plugins(load, plugins, tmp_path):
    run(load(RECIPE + "\n[dice]\nsides = 20\n"), tmp_path / "out", plugins)
    for name in ("report.html", "report.md"):
        page = (tmp_path / "out" / name).read_text()
        for word in ("Dice", "sides", "20", "They are fair."):
            assert word in page, name
