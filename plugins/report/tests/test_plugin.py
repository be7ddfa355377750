from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import attrs
import pytest
from sentbed import load_recipe, run
from sentbed._recipe.recipe import Recipe
from sentbed._registry.registry import Plugins, load_plugins
from sentbed.protocols import ReportSection
from sentbed_report.formatting import share
from sentbed_report.run_report import RunReport
from sentbed_report.score_items import attach_items
from sentbed_report.statistics.resampling import value
from sentbed_report.write_report import write_report
from toy_plugin import RECIPE


@pytest.fixture
def plugins(toy_points: list[EntryPoint]) -> Plugins:
    """The toy plugin, core's trackers and this distribution."""
    own = distribution("sentbed-report").entry_points.select(group="sentbed")
    return load_plugins(dict.fromkeys([*toy_points, *own]))


@pytest.fixture
def load(put: Callable[[str, str], Path], plugins: Plugins) -> Callable[[str], Recipe]:
    return lambda text: load_recipe(put("recipe.toml", text), plugins=plugins)


def test_a_run_says_how_sure_its_scores_are(load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path):
    text = RECIPE.replace('use = "gap"', 'use = "nearness"') + "\n[bootstrap]\nresamples = 200\n"
    result = run(load(text), tmp_path / "out", plugins)
    assert result.report == tmp_path / "out" / "report.html"
    before, _, after, _ = (attrs.evolve(score, items=None) for score in result.scores)
    found = attach_items(tmp_path / "out", (before, after))
    assert [value(score.items) for score in found if score.items] == [before.value, after.value]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    low, high = report["scores"][0]["interval"]
    assert low < before.value < high
    assert report["scores"][1]["interval"] is None
    (difference,) = report["bootstrap"]["differences"]
    assert (difference["first"], difference["second"]) == ("encoder@start", "encoder")
    assert difference["difference"] == after.value - before.value
    lines = (tmp_path / "out" / "tables" / "nearness.csv").read_text().splitlines()
    assert lines == ["encoder,near", f"encoder@start,{before.value}", f"encoder,{after.value}"]


def test_the_page_has_the_sections_of_other_plugins(
    load: Callable[[str], Recipe], plugins: Plugins, tmp_path: Path
):
    run(load(RECIPE + "\n[dice]\nsides = 20\n"), tmp_path / "out", plugins)
    for name in ("report.html", "report.md"):
        page = (tmp_path / "out" / name).read_text()
        assert all(word in page for word in ("Dice", "sides", "20", "They are fair.")), name


def test_labels_with_shares_are_bars_of_one_scale(tmp_path: Path) -> None:
    """The longest bar of a section is as long as its column; a label is text, whatever it holds."""
    rows = (
        ("A <b>horse</b>.", (("ride|r", 0.4), ("<i>", 0.1)), (("that", 0.2),)),
        ("Rain.", (("wet", 0.05),), None),
    )
    section = ReportSection("words", "Words", ("Sentence", "one:\nfirst", "other"), rows, "Said next.")
    data = RunReport("r", "finished", None, "2026-01-01T00:00:00+00:00", 1.0, "", {}, sections=(section,))
    page = write_report(tmp_path, data).read_text()
    assert re.findall(r"width:([0-9.]+)%", page) == ["100.00", "25.00", "50.00", "12.50"]
    assert [text for text in ("<b>", "<i>") if text in page] == []
    assert re.findall(r'class="share">([^<]+)<', page) == ["40 %", "10 %", "20 %", "5.0 %"]
    assert re.findall(r'class="bars (c\d)"', page) == ["c0", "c1", "c0"]
    assert 'style="--columns: 2"' in page
    printed = (tmp_path / "report.md").read_text()
    assert r"| A \<b\>horse\</b\>. | ride\|r 40 %, \<i\> 10 % | that 20 % |" in printed
    assert "| Sentence | one: first | other |" in printed
    record = json.loads((tmp_path / "report.json").read_text())
    assert record["sections"]["words"]["rows"][1] == ["Rain.", [["wet", 0.05]], None]


@pytest.mark.parametrize(
    ("value", "said"),
    [(1.0, "100 %"), (0.0996, "10 %"), (0.0994, "9.9 %"), (0.00996, "1.0 %"), (0.0042, "0.42 %"),
     (0.0001, "0.01 %"), (0.00002, "< 0.01 %"), (0.0, "< 0.01 %")],
)  # fmt: skip
def test_a_share_has_two_digits_that_count(value: float, said: str) -> None:
    assert share(value) == said


@pytest.mark.parametrize("wrong", ["resamples = 99", "confidence = 1.0"])
def test_a_bootstrap_has_enough_draws_and_a_share(wrong: str, load: Callable[[str], Recipe]):
    with pytest.raises(Exception, match=r"@ .*bootstrap\."):
        load(f"{RECIPE}\n[bootstrap]\n{wrong}\n")
