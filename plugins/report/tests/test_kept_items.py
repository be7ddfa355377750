"""Runs keep the items of their scores, and find them again."""

from __future__ import annotations

from importlib.metadata import distribution

import pytest
from damage import truncate
from sentbed import hookimpl, resume, run
from sentbed.tools import load_plugins
from sentbed_report.score_items import attach_items
from toy_plugin import RECIPE, quicken

NEARNESS = RECIPE.replace('use = "gap"', 'use = "nearness"')


class StopAtStep:
    """Ctrl-C at a step."""

    def __init__(self, at):
        self.at = at

    @hookimpl(trylast=True)
    def step_finished(self, step):
        if step == self.at:
            raise KeyboardInterrupt


@pytest.fixture
def plugins(toy_points):
    """The toy plugin and the report."""
    report = distribution("sentbed-report").entry_points.select(group="sentbed")
    toy = [point for point in toy_points if point.name != "console"]
    return load_plugins([*toy, *report])


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quicken(monkeypatch)


@pytest.mark.parametrize("damaged", [False, True])
def test_scores_of_a_resumed_run_find_their_items_again(
    damaged, recipe_of, plugins, tmp_path, monkeypatch
):
    warnings = []

    def write(directory, data, **_):
        warnings[:] = data.warnings
        return directory / "report.html"

    monkeypatch.setattr("sentbed_report.write_report.write_report", write)
    out = tmp_path / "out"
    stop = StopAtStep(3)
    plugins.manager.register(stop)
    with pytest.raises(KeyboardInterrupt):
        run(recipe_of(NEARNESS), out, plugins)
    plugins.manager.unregister(stop)
    (file,) = (out / "items").iterdir()
    if damaged:
        truncate(file)
    result = resume(out, recipe_of(NEARNESS), plugins)
    assert [score.encoder for score in result.scores if score.items] == ["encoder"]
    if not damaged:
        attached = attach_items(out, result.scores)
        assert [score.encoder for score in attached if score.items] == [
            "encoder@start",
            "encoder",
        ]
    assert len(warnings) == int(damaged)
    assert all(str(file) in warning for warning in warnings)
