"""Cost of runs that share stages: that of the same runs without sharing."""

from __future__ import annotations

import json

import pytest
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, SgdTrainer

AXES = """
[checkpoint]
every = 1
[study]
seeds = [1]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""


@pytest.mark.slow
@pytest.mark.usefixtures("installed_toy", "quick")
def test_a_run_costs_its_shared_stages_too_also_where_it_was_stopped_after_them(
    put, tmp_path, monkeypatch
):
    study = read_study(put("study.toml", TOWERS + AXES))
    run_study(study, tmp_path / "alone", share=False)
    run_study(study, tmp_path / "whole")

    step, taken = SgdTrainer.step, [0]

    def stopping(self, columns):
        taken[0] += 1
        # Two shared runs of six steps; then the third of four steps of a cell.
        if taken[0] == 2 * 6 + 3:
            raise KeyboardInterrupt
        return step(self, columns)

    monkeypatch.setattr(SgdTrainer, "step", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "stopped")
    run_study(study, tmp_path / "stopped")

    tokens = {}
    for name in ("alone", "whole", "stopped"):
        tokens[name] = []
        for run in read_data(tmp_path / name).runs:
            assert run.seconds > 0
            rows = run.record["sections"]["run-cost"]["rows"]
            costs = {row[0]: row[2] for row in rows}
            tokens[name].append(costs["tokens"])

    assert len(tokens["alone"]) == 4
    assert tokens["alone"][0] > 0
    assert tokens["alone"] == tokens["whole"] == tokens["stopped"]


@pytest.mark.slow
@pytest.mark.usefixtures("installed_toy", "quick")
def test_a_run_says_how_long_each_of_its_shared_stages_took(put, directory):
    start = TOWERS.index('[[stage]]\nname = "tune"')
    tune = TOWERS[start : TOWERS.index("[[evaluate]]")]
    last = tune.replace('"tune"', '"last"')
    recipe = TOWERS.replace("[[evaluate]]", last + "[[evaluate]]", 1)
    axes, _, _ = AXES.partition("[study.axes.noise]")
    axes = axes.replace("seeds = [1]", 'seeds = [1]\nkeep = "all"')
    axes += '[study.axes.end]\npath = "stage.last.optimizer.lr"\nvalues = [0.5, 0.25]\n'
    run_study(read_study(put("study.toml", recipe + axes)), directory)

    took = {}
    for report in (directory / "shared").glob("*/report.json"):
        took[report.parent.name] = json.loads(report.read_text())["seconds"]
    # All four cells have the first stage, two and two the second one.
    assert len(took) == 3

    for run in read_data(directory).runs:
        shared = run.record["manifest"]["shared_seconds"]
        pairs, tune = shared
        assert (pairs.split("-")[0], tune.split("-")[0]) == ("pairs", "tune")
        # The state from which a run goes on is written before the report.
        assert 0 < shared[pairs] <= took[pairs]
        assert 0 < shared[tune] <= took[tune] - shared[pairs]
        assert run.seconds > sum(shared.values())
