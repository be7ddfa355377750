"""Cost that runs record when they share stages, against the same study without sharing."""

from __future__ import annotations

import json

import pytest
from sentbed_report.run_cost import recorded_cost
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.study_cost import study_cost
from sentbed_studies import load_study
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, SgdTrainer

AXES = """
[study]
seeds = [1]
keep = "all"
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]


@pytest.fixture
def study(put):
    """Four cells, which share their first stage in pairs."""
    return read_study(put("study.toml", TOWERS + AXES))


@pytest.fixture
def shared(study, copied):
    """Directory of the finished study."""
    return copied(lambda kept: run_study(study, kept))


def test_a_run_records_what_its_shared_stages_took(study, shared, tmp_path):
    run_study(study, tmp_path / "alone", share=False)
    together, alone = read_data(shared), read_data(tmp_path / "alone")
    costs = {}
    for directory in (shared / "shared").iterdir():
        costs[directory.name] = recorded_cost(
            json.loads((directory / "report.json").read_text())
        )
    assert len(costs) == 2
    for cell, other in zip(together.cells, alone.cells, strict=True):
        for run, by_itself in zip(cell.runs, other.runs, strict=True):
            assert run.cost is not None
            assert by_itself.cost is not None
            ((name, cost),) = run.cost.shared.items()
            before = costs[name]
            assert before is not None
            assert (cost.tokens, before.shared) == (before.own.tokens, {})
            # The state from which cells go on is written before the report of the shared run.
            assert 0 < (cost.seconds or 0) <= (before.own.seconds or 0)
            assert by_itself.cost.shared == {}
            assert (
                run.cost.alone.tokens
                == by_itself.cost.own.tokens
                == by_itself.cost.alone.tokens
            )
            assert 0 < (run.cost.own.tokens or 0) < (run.cost.alone.tokens or 0)
    whole, apart = study_cost(together), study_cost(alone)
    assert whole is not None
    assert apart is not None
    stages = sum(cost.own.tokens or 0 for cost in costs.values() if cost is not None)
    assert (whole.tokens or 0) == (apart.tokens or 0) - stages


def test_stages_that_go_on_from_shared_stages_keep_theirs_apart(put, directory):
    last = TOWERS[
        TOWERS.index('[[stage]]\nname = "tune"') : TOWERS.index("[[evaluate]]")
    ]
    text = TOWERS.replace(
        "[[evaluate]]", last.replace('"tune"', '"last"') + "[[evaluate]]", 1
    )
    axes, _, _ = AXES.partition("[study.axes.noise]")
    axes += '[study.axes.end]\npath = "stage.last.optimizer.lr"\nvalues = [0.5, 0.25]\n'
    study = read_study(put("study.toml", text + axes))
    run_study(study, directory)
    runs = read_data(directory).runs
    assert len(runs) == 4
    for run in runs:
        assert run.cost is not None
        assert [name.split("-")[0] for name in run.cost.shared] == ["pairs", "tune"]


def test_costs_of_runs_are_rows_of_a_frame(shared):
    pytest.importorskip("pandas")
    loaded = load_study(shared)
    costs = loaded.scores[loaded.scores["evaluator"] == "run-cost"]
    encoders = loaded.scores["encoder"]
    ends = encoders[~encoders.str.endswith("@start")].unique()
    tokens = costs[costs["task"] == "run-tokens"]
    assert len(tokens) == 4 * len(ends)
    assert (tokens["value"] > 0).all()
    assert (costs["axis"] == "cost").all()


@pytest.mark.slow
def test_a_run_that_was_stopped_after_its_shared_stages_keeps_them_apart(
    put, tmp_path, monkeypatch
):
    study = read_study(put("study.toml", TOWERS + "\n[checkpoint]\nevery = 1\n" + AXES))
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
    statuses = [run.status for run in read_data(tmp_path / "stopped").runs]
    assert statuses.count("interrupted") == 1
    run_study(study, tmp_path / "stopped")
    runs = read_data(tmp_path / "whole").runs
    stopped = read_data(tmp_path / "stopped").runs
    for run, again in zip(runs, stopped, strict=True):
        assert run.cost is not None
        assert again.cost is not None
        assert again.cost.own.tokens == run.cost.own.tokens
        assert again.cost.shared.keys() == run.cost.shared.keys()
        for name, cost in run.cost.shared.items():
            assert again.cost.shared[name].tokens == cost.tokens
