from __future__ import annotations

import json

import attrs
import pytest
import sentbed_studies
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.exports import write_exports
from sentbed_report.study.read_study_directory import read_data
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_studies.study_results import LoadedStudy, load_study


def run(cell, seed, **scores):
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    of_run = tuple(
        Score(task, "accuracy", value, protocol, "en", "transfer")
        for task, value in scores.items()
    )
    return CellRun(cell, seed, "finished" if scores else "waiting", scores=of_run)


@pytest.fixture
def data():
    axes = (AxisInfo("pooler", ("mean", "first")), AxisInfo("seed", ("1e-3", "1e9")))
    cells = []
    for place, name in enumerate(("mean, 1e-3", "mean, 1e9", "first, 1e-3")):
        runs = (
            run(name, 1, MR=70.0 + place, CR=80.0),
            run(name, 2, MR=72.0 + place, CR=81.0),
        )
        labels = dict(zip(("pooler", "seed"), name.split(", "), strict=True))
        cells.append(
            CellInfo(name, labels, runs if place < 2 else (runs[0], run(name, 2)))
        )
    return StudyData("toy <b>", axes, tuple(cells), "mean, 1e-3", (1, 2))


def with_runs(data, changed):
    """The study with other runs."""
    cells = tuple(
        attrs.evolve(cell, runs=tuple(map(changed, cell.runs))) for cell in data.cells
    )
    return attrs.evolve(data, cells=cells)


def renamed(data, *names):
    """The study with axes of these names."""
    axes = [
        attrs.evolve(axis, name=name)
        for axis, name in zip(data.axes, names, strict=True)
    ]
    cells = []
    for cell in data.cells:
        labels = dict(zip(names, cell.labels.values(), strict=True))
        cells.append(attrs.evolve(cell, labels=labels))
    return attrs.evolve(data, axes=tuple(axes), cells=tuple(cells))


def test_scores_are_a_tidy_table(data):
    frame = LoadedStudy(data).scores
    assert [*frame.columns] == [
        *(
            "cell",
            "pooler",
            "axis seed",
            "seed",
            "encoder",
            "evaluator",
            "protocol",
            "task",
            "metric",
        ),
        *("value", "direction", "degenerate"),
    ]
    assert len(frame) == 2 * 2 * 2 + 2
    assert frame.iloc[3].to_dict() == {
        "cell": "mean, 1e-3",
        "pooler": "mean",
        "axis seed": "1e-3",
        "seed": 2,
        "encoder": "en",
        "evaluator": "transfer",
        "protocol": "p",
        "task": "CR",
        "metric": "accuracy",
        "value": 81.0,
        "direction": "higher",
        "degenerate": "",
    }
    means = (
        frame[frame.task == "MR"]
        .groupby(["pooler", "axis seed"], observed=True)
        .value.mean()
    )
    # In the order of the recipe, not of the alphabet; labels stay as they were written.
    assert [*means.index] == [("mean", "1e-3"), ("mean", "1e9"), ("first", "1e-3")]
    assert [*means] == [71.0, 72.0, 72.0]
    assert (frame.value.dtype, frame.seed.dtype) == ("float64", "int64")


def costing(data, other="value"):
    """The study with costs in every finished run, one of them measured twice."""

    def with_costs(run):
        protocol = {"encoder": {}, "evaluator": {"id": "c"}}
        costs = (
            ("passes", 1.0),
            (other, 2.0),
            ("tokens", run.seed * 10.0),
            ("passes", 3.0),
        )
        added = (
            Score(task, "a", value, protocol, "en", "c", direction="lower", axis="cost")
            for task, value in costs
        )
        return attrs.evolve(run, scores=(*run.scores, *added)) if run.scores else run

    return with_runs(data, with_costs)


def test_costs_have_a_row_for_each_run_and_a_column_for_each_cost(
    data,
):
    study = LoadedStudy(costing(data, "pooler"))
    frame = study.costs
    place = ["cell", "pooler", "axis seed", "seed", "encoder", "evaluator"]
    assert [*frame.columns] == [*place, "passes", "cost pooler", "tokens"]
    # Five runs have finished; what is measured twice has two rows.
    assert len(frame) == 2 * 5
    whole = frame[frame.tokens.notna()]
    assert [*whole.passes] == [1.0] * 5
    assert [*whole.tokens] == [10.0, 20.0, 10.0, 20.0, 10.0]
    assert [*frame[frame.tokens.isna()].passes] == [3.0] * 5
    # Beside the scores of the same run.
    mr = study.scores[study.scores.task == "MR"].merge(
        whole, on=["cell", "pooler", "axis seed", "seed"]
    )
    assert [*zip(mr.value, mr.tokens, strict=True)][:2] == [(70.0, 10.0), (72.0, 20.0)]
    assert len(LoadedStudy(data).costs) == 0


def test_groups_have_a_row_for_each_cell_of_a_table(data):
    study = LoadedStudy(data)
    frame = study.groups
    groups = study.tables[0].groups
    assert groups is not None
    assert [*frame.columns[:3]] == ["cell", "pooler", "axis seed"]
    assert "seed" not in frame.columns
    # The other two differ by 0.5 under both seeds.
    assert groups.left == (("first, 1e-3", "it has not finished"),)
    assert groups.reason == "the seeds change nothing, and the score has no items"
    assert len(frame) == len(groups.rows) == 0
    noisy = attrs.evolve(
        data.cells[1].runs[0], scores=run("mean, 1e9", 1, MR=70.5, CR=84.0).scores
    )
    cell = attrs.evolve(data.cells[1], runs=(noisy, data.cells[1].runs[1]))
    frame = LoadedStudy(attrs.evolve(data, cells=(data.cells[0], cell))).groups
    assert frame[["cell", "mean", "beaten", "lowest_rank", "highest_rank"]].to_dict(
        "list"
    ) == {
        "cell": ["mean, 1e9", "mean, 1e-3"],
        "mean": [77.125, 75.75],
        "beaten": [False, False],
        "lowest_rank": [1, 1],
        "highest_rank": [2, 2],
    }
    assert frame.from_best.tolist() == [0.0, -1.375]


@pytest.mark.parametrize(
    "name",
    ["pooler", "mean", "seed", "status", "beaten", "std", "column", "repetition"],
)
def test_an_axis_has_one_name_in_csv_and_data_frames(data, name, tmp_path):
    study = LoadedStudy(renamed(data, name, "other"))
    write_exports(tmp_path, study.data)
    column = name if name == "pooler" else f"axis {name}"
    for file in (tmp_path / "tables").glob("*.csv"):
        assert column in file.read_text().splitlines()[0].split(",")
    assert column in study.scores.columns
    assert column in study.groups.columns
    assert {*LoadedStudy(costing(study.data)).costs[column]} == {"mean", "first"}


def test_a_study_of_which_nothing_has_finished_has_no_rows(data):
    study = LoadedStudy(
        with_runs(data, lambda finished: run(finished.cell, finished.seed))
    )
    assert (len(study.scores), study.tables, len(study.groups)) == (0, (), 0)
    assert "pooler" in study.scores.columns


def test_it_is_the_packages_door_and_refuses_what_is_no_study(tmp_path):
    assert sentbed_studies.load_study is load_study
    assert dir(sentbed_studies) == ["LoadedStudy", "load_study"]
    with pytest.raises(RunError, match="is no study"):
        load_study(tmp_path)
    (tmp_path / "study.toml").write_text("")
    content = {
        "schema": 1,
        "name": "n",
        "axes": [],
        "baseline": None,
        "seeds": [1],
        "cells": [],
    }
    (tmp_path / "study.json").write_text(
        json.dumps({**content, "excluded": [], "expected": {}, "order": []})
    )
    assert load_study(tmp_path).name == "n"


@pytest.mark.parametrize(
    ("ranks", "expected"), [(None, None), ([], ()), (["pooler"], ("pooler",))]
)
def test_ranks_colour_and_cost_are_those_of_the_studys_directory(
    tmp_path, ranks, expected
):
    (tmp_path / "study.toml").write_text("")
    axis = {"name": "pooler", "labels": ["mean"], "numbers": None}
    content = {
        "schema": 1,
        "name": "n",
        "axes": [axis],
        "baseline": None,
        "cells": [],
        "excluded": [],
    }
    record = {
        "expected": {},
        "ranks": ranks,
        "colour": "STSB",
        "cost": "passes",
    }
    (tmp_path / "study.json").write_text(json.dumps({**content, **record}))
    data = read_data(tmp_path)
    assert (data.ranked_within, data.colour, data.cost) == (expected, "STSB", "passes")


def test_a_figure_is_drawn_and_written_by_name(data, tmp_path):
    study = LoadedStudy(costing(data))
    assert study.figures["cost"] == "transfer, p: Avg (accuracy) against passes"
    figure = study.plot("cost", tmp_path / "new" / "cost.pdf", task="MR", width=3.3)
    assert figure.get_figwidth() == pytest.approx(3.3)
    assert figure.axes[0].get_ylabel() == "MR (accuracy)"
    assert (tmp_path / "new" / "cost.pdf").read_bytes().startswith(b"%PDF")
    assert study.plot("cost", height=2).get_figheight() == pytest.approx(2)
    with pytest.raises(RunError, match=r"no figure `pie`; its figures are `"):
        study.plot("pie")


def test_an_axis_that_changes_no_score_is_found(data):
    # The labels of `pooler` give other scores; those of `seed` are made to give the same.
    assert [*axes_without_effect(data)] == []
    first, second, third = data.cells
    same = attrs.evolve(
        second, runs=tuple(attrs.evolve(run, cell=second.name) for run in first.runs)
    )
    (sentence,) = axes_without_effect(attrs.evolve(data, cells=(first, same, third)))
    assert sentence.startswith("the axis `seed` changes no score: ")
    # One cell alone shows nothing.
    assert [*axes_without_effect(attrs.evolve(data, cells=(first,)))] == []

    # Neither do costs, which depend on the machine.
    def with_costs(run):
        costs = []
        for score in run.scores:
            costs.append(attrs.evolve(score, axis="cost"))
        return attrs.evolve(run, scores=tuple(costs))

    two = attrs.evolve(data, cells=(first, same))
    assert [*axes_without_effect(with_runs(two, with_costs))] == []
