from __future__ import annotations

import attrs
import pytest
import sentbed_studies
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed_report.study.axes_without_effect import axes_without_effect
from sentbed_report.study.exports import write_exports
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, StudyData
from sentbed_studies.study_results import LoadedStudy, load_study


def run(cell, seed, **scores):
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    if not scores:
        return CellRun(cell, seed, "waiting")
    of_run = []
    for task, value in scores.items():
        of_run.append(Score(task, "accuracy", value, protocol, "en", "transfer"))
    return CellRun(cell, seed, "finished", scores=tuple(of_run))


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
    cells = []
    for cell in data.cells:
        cells.append(attrs.evolve(cell, runs=tuple(map(changed, cell.runs))))
    return attrs.evolve(data, cells=tuple(cells))


def renamed(data, *names):
    """The study with axes of these names."""
    axes = []
    for axis, name in zip(data.axes, names, strict=True):
        axes.append(attrs.evolve(axis, name=name))
    cells = []
    for cell in data.cells:
        labels = dict(zip(names, cell.labels.values(), strict=True))
        cells.append(attrs.evolve(cell, labels=labels))
    return attrs.evolve(data, axes=tuple(axes), cells=tuple(cells))


def test_scores_are_a_row_each(data):
    frame = LoadedStudy(data).scores
    assert len(frame) == 2 * 2 * 2 + 2
    row = frame.iloc[3]
    labels = (row["pooler"], row["axis seed"], row["seed"])
    assert labels == ("mean", "1e-3", 2)
    assert (row["task"], row["value"], row["direction"]) == ("CR", 81.0, "higher")
    means = (
        frame[frame.task == "MR"]
        .groupby(["pooler", "axis seed"], observed=True)
        .value.mean()
    )
    # In the order of the recipe, not of the alphabet; labels stay as they were written.
    assert [*means.index] == [("mean", "1e-3"), ("mean", "1e9"), ("first", "1e-3")]
    assert [*means] == [71.0, 72.0, 72.0]
    assert (frame.value.dtype, frame.seed.dtype) == ("float64", "int64")


def costing(data):
    """The study with costs in every finished run."""

    def with_costs(run):
        protocol = {"encoder": {}, "evaluator": {"id": "c"}}
        if not run.scores:
            return run
        scores = [*run.scores]
        costs = {"passes": 1.0, "value": 2.0, "tokens": run.seed * 10.0}
        for task, value in costs.items():
            cost = Score(task, "a", value, protocol, "en", "c")
            scores.append(attrs.evolve(cost, direction="lower", axis="cost"))
        return attrs.evolve(run, scores=tuple(scores))

    return with_runs(data, with_costs)


@pytest.mark.parametrize(
    "name",
    ["pooler", "seed", "status"],
)
def test_an_axis_has_one_name_in_csv_and_data_frames(data, name, tmp_path):
    study = LoadedStudy(renamed(data, name, "other"))
    write_exports(tmp_path, study.data)
    column = name if name == "pooler" else f"axis {name}"
    for file in (tmp_path / "tables").glob("*.csv"):
        assert column in file.read_text().splitlines()[0].split(",")
    assert column in study.scores.columns


def test_a_study_of_which_nothing_has_finished_has_no_rows(data):
    study = LoadedStudy(
        with_runs(data, lambda finished: run(finished.cell, finished.seed))
    )
    assert (len(study.scores), study.tables) == (0, ())
    assert "pooler" in study.scores.columns


def test_it_is_the_packages_door_and_refuses_what_is_no_study(tmp_path):
    assert sentbed_studies.load_study is load_study
    assert dir(sentbed_studies) == ["LoadedStudy", "load_study"]
    with pytest.raises(RunError, match="is no study"):
        load_study(tmp_path)


def test_a_figure_is_drawn_and_written_by_name(data, tmp_path):
    study = LoadedStudy(costing(data))
    assert study.figures["cost"] == "transfer, p: Avg (accuracy) against passes"
    figure = study.plot("cost", tmp_path / "new" / "cost.pdf", task="MR", width=3.3)
    assert figure.get_figwidth() == pytest.approx(3.3)
    assert figure.axes[0].get_ylabel() == "MR (accuracy)"
    assert (tmp_path / "new" / "cost.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(RunError, match=r"no figure `pie`; its figures are `"):
        study.plot("pie")


def test_an_axis_that_changes_no_score_is_found(data):
    # The labels of `pooler` give other scores; those of `seed` are made to give the same.
    assert [*axes_without_effect(data)] == []
    first, second, third = data.cells
    same_runs = []
    for run_of_first in first.runs:
        same_runs.append(attrs.evolve(run_of_first, cell=second.name))
    same = attrs.evolve(second, runs=tuple(same_runs))
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
