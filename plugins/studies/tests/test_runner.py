from __future__ import annotations

import json
import shutil

import attrs
import pytest
from sentbed.errors import RecipeError, RunError
from sentbed.tools import locked
from sentbed_report.study.read_study_directory import lock_of, read_data
from sentbed_studies import runner as running
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, Nearness

AXES = """
[study]
seeds = [1]
baseline = { lr = "0.5", noise = "0.0" }
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
[study.axes.noise]
path = "stage.pairs.loss.noise"
values = [0.0, 0.5]
"""
OTHER_LABELS = AXES.replace('lr = "0.5"', 'lr = "high"').replace(
    "values = [0.5, 0.25]", 'values = [0.5, 0.25]\nlabels = ["high", "low"]'
)
ONE_MORE_AXIS = (
    AXES.replace("baseline = {", 'baseline = { length = "16",')
    + """
[study.axes.length]
path = "encoders.zh.max_length"
values = [16, 8]
"""
)
ONE_CELL = [{"lr": "0.5", "noise": "0.0"}]

pytestmark = pytest.mark.usefixtures("installed_toy", "quick")


@pytest.fixture
def study(put):
    """Four cells, which share their first stage in pairs."""
    return read_study(put("study.toml", TOWERS + AXES))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Where the first test leaves a finished study, of which all is kept, for the others."""
    return tmp_path_factory.mktemp("finished") / "study"


@pytest.fixture
def one_cell(study, copied):
    """Directory of a study of which one cell has run."""
    return copied(lambda kept: run_study(study, kept, only=ONE_CELL))


def scores_of(directory):
    scores = {}
    for cell in read_data(directory).cells:
        for run in cell.runs:
            scores[f"{run.cell}, {run.seed}"] = [score.value for score in run.scores]
    return scores


def keeping(study, keep):
    return attrs.evolve(study, table=attrs.evolve(study.table, keep=keep))


def test_shared_stages_change_no_score(put, tmp_path):
    axes, _, _ = AXES.partition("[study.axes.noise]")
    axes = axes.replace(', noise = "0.0"', "").replace("[1]", "[1, 2]")
    study = keeping(read_study(put("study.toml", TOWERS + axes)), "all")
    lines = []
    run_study(study, tmp_path / "shared", say=lines.append)
    run_study(study, tmp_path / "alone", share=False)
    scores = scores_of(tmp_path / "shared")
    assert scores == scores_of(tmp_path / "alone")
    assert len(set(map(tuple, scores.values()))) == 4
    assert len(list((tmp_path / "shared" / "shared").iterdir())) == 2
    assert not (tmp_path / "alone" / "shared").exists()
    assert [line.split(" in ")[0] for line in lines[:2]] == [
        "the shared stages pairs: finished"
    ] * 2
    assert lines[-1].startswith("4 of 4: 0.25, seed 2: finished in ")


def test_a_run_that_goes_on_from_shared_stages_says_so_and_keeps_their_log(one_cell):
    run = next((one_cell / "runs").iterdir())
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["went_on_from"].startswith("pairs-")
    events = [
        json.loads(line)["event"]
        for line in (run / "log.jsonl").read_text().splitlines()
    ]
    assert events.count("run_started") == 1
    assert events.count("stage_started") == 2
    assert events.count("run_resumed") == 1
    report = json.loads((run / "report.json").read_text())
    assert [stage["name"] for stage in report["stages"]] == ["pairs", "tune"]


def test_a_run_that_goes_on_from_shared_stages_has_the_remarks_on_its_evaluations(
    put, tmp_path, monkeypatch
):
    prepare = Nearness.prepare

    def with_remark(evaluator):
        prepared = prepare(evaluator)
        return attrs.evolve(prepared, remarks=("a word stands twice",))

    monkeypatch.setattr(Nearness, "prepare", with_remark)
    near = '[[evaluate]]\nuse = "nearness"\nencoder = "zh"\nat = ["end"]\n'
    study = read_study(put("study.toml", TOWERS + near + AXES))
    run_study(study, tmp_path / "shared")
    run_study(study, tmp_path / "alone", share=False)

    for name in ("shared", "alone"):
        for run in read_data(tmp_path / name).runs:
            assert run.record["warnings"] == ["a word stands twice"]
    assert "went_on_from" in run_manifest(tmp_path / "shared")


def run_manifest(directory):
    (path, *_) = directory.glob("runs/*/manifest.json")
    return json.loads(path.read_text())


# --- what stays --------------------------------------------------------------------------------------------


def weights(directory):
    """Return what is there of checkpoints, encoders and shared stages."""
    runs = list((directory / "runs").iterdir())
    assert len(runs) == 4
    assert not list(directory.rglob(".*.gone"))
    kept = {
        name
        for run in runs
        for name in ("checkpoints", "encoder")
        if (run / name).is_dir()
    }
    if list(directory.glob("shared/*")):
        kept.add("shared")
    return kept


@pytest.mark.parametrize(
    ("keep", "kept"),
    [
        ("scores", set()),
        ("best", {"encoder"}),
        ("all", {"encoder", "checkpoints", "shared"}),
    ],
)
def test_what_is_to_be_kept_stays_and_scores_in_any_case(
    keep, kept, study, directory, finished, tmp_path
):
    if not finished.exists():
        run_study(keeping(study, "all"), finished)
    if keep != "all":
        run_study(keeping(study, keep), directory)
        assert weights(directory) == kept
        assert scores_of(directory) == scores_of(finished)
    # Also of runs that had finished before.
    before = shutil.copytree(finished, tmp_path / "before")
    run_study(keeping(study, keep), before)
    assert weights(before) == kept
    assert scores_of(before) == scores_of(finished)


def test_shared_stages_stay_until_the_last_cell_has_gone_on_from_them(study, directory):
    study = keeping(study, "scores")
    run_study(study, directory, only=[{"lr": "0.5"}])
    assert len(list(directory.glob("shared/*"))) == 2
    run_study(study, directory)
    assert list(directory.glob("shared/*")) == []


def test_cells_that_are_added_later_train_the_removed_stages_again(
    put, directory, tmp_path
):
    axes, _, _ = AXES.partition("[study.axes.noise]")
    recipe = TOWERS + axes.replace(', noise = "0.0"', "")
    run_study(read_study(put("study.toml", recipe)), directory)
    more = read_study(
        put("more.toml", recipe.replace("[0.5, 0.25]", "[0.5, 0.25, 0.125]"))
    )
    run_study(more, directory)
    run_study(more, tmp_path / "alone", share=False)
    assert len(scores_of(directory)) == 3
    assert scores_of(directory) == scores_of(tmp_path / "alone")


# --- what is run -------------------------------------------------------------------------------------------


def test_neither_finished_runs_nor_stages_that_nobody_needs_any_more_are_run_again(
    study, directory, fail
):
    run_study(study, directory)
    shutil.rmtree(directory / "shared")
    fail(lambda job: RunError("a run was started"))
    lines = []
    run_study(study, directory, say=lines.append)
    assert len(lines) == 4
    assert all(line.endswith(": was finished") for line in lines)
    assert not (directory / "shared").exists()


@pytest.mark.slow
def test_a_changed_recipe_runs_the_cells_that_it_changes(study, directory, put):
    run_study(study, directory)
    changed = read_study(
        put("study.toml", TOWERS + AXES.replace("[0.5, 0.25]", "[0.5, 0.125]"))
    )
    lines = []
    run_study(changed, directory, say=lines.append)
    assert [": was finished" in line for line in lines if " of 4: " in line] == [
        True,
        True,
        False,
        False,
    ]
    assert {cell.name for cell in read_data(directory).cells} == set(changed.names)


@pytest.mark.parametrize("axes", [OTHER_LABELS, ONE_MORE_AXIS])
def test_a_cell_whose_name_has_changed_keeps_its_run(axes, one_cell, put, fail):
    fail(lambda job: RunError("a run was started"))
    renamed = read_study(put("study.toml", TOWERS + axes))
    run_study(renamed, one_cell, only=[renamed.table.baseline])
    assert read_data(one_cell).finished == 1


def test_a_cell_that_fails_ends_the_study_with_the_reason_and_keeps_the_rest(
    study, directory, fail
):
    fails = True

    def full_disk(job):
        return (
            RunError("the disk is full")
            if fails and str(job) == "0.25, 0.0, seed 1"
            else None
        )

    fail(full_disk)
    with pytest.raises(
        RunError,
        match=r"0\.25, 0\.0, seed 1 failed: the disk is full; what has finished is kept",
    ):
        run_study(study, directory)
    assert read_data(directory).finished == 2
    (outcome,) = run_study(study, directory, keep_going=True).failed
    assert (str(outcome.task), outcome.error) == (
        "0.25, 0.0, seed 1",
        "the disk is full",
    )
    assert read_data(directory).finished == 3
    fails = False
    assert run_study(study, directory).failed == ()
    assert read_data(directory).finished == 4


def test_a_fault_that_is_not_sentbeds_own_keeps_its_traceback(study, directory, fail):
    fail(lambda job: ZeroDivisionError("by zero"))
    with pytest.raises(RunError, match="ZeroDivisionError: by zero") as caught:
        run_study(study, directory)
    assert "in run" in caught.value.__notes__[0]


def test_cells_of_stages_that_failed_say_so(study, directory, fail):
    fail(lambda job: RunError("no data") if job.stages else None)
    result = run_study(study, directory, keep_going=True)
    assert len(result.failed) == 6
    assert "which it goes on from, have not finished" in result.failed[-1].error


def test_a_cell_that_another_process_is_at_is_waited_for(study, directory, monkeypatch):
    run_study(study, directory, only=[{"lr": "0.5"}])
    run = directory / read_data(directory).runs[0].directory
    manifest = run / "manifest.json"
    finished = manifest.read_text()
    manifest.write_text(finished.replace('"finished"', '"running"'))
    waits = 0

    def wait(_):
        nonlocal waits
        waits += 1
        if waits == 2:
            manifest.write_text(finished)
            other_process.__exit__(None, None, None)

    monkeypatch.setattr(running.time, "sleep", wait)
    other_process = locked(lock_of(directory.resolve(), run))
    assert other_process.__enter__()
    statuses = [run.status for cell in read_data(directory).cells for run in cell.runs]
    assert statuses[:2] == ["running", "finished"]
    run_study(study, directory)
    assert waits == 2
    assert read_data(directory).finished == 4


def test_only_cells_that_are_asked_for_are_run_and_all_are_listed(study, one_cell):
    data = read_data(one_cell)
    assert (data.finished, data.total) == (1, 4)
    statuses = [run.status for cell in data.cells for run in cell.runs]
    assert statuses.count("waiting") == 3
    with pytest.raises(RecipeError, match="there is no axis `ls`"):
        run_study(study, one_cell, only=[{"ls": "0.5"}])


# --- where it is run ---------------------------------------------------------------------------------------


def test_another_study_in_the_same_directory_is_refused(one_cell, put):
    before = scores_of(one_cell)
    text = (
        (TOWERS + AXES)
        .replace('name = "towers"', 'name = "bridges"')
        .replace("[0.5, 0.25]", "[0.4, 0.3]")
    )
    other = read_study(put("other.toml", text.replace('lr = "0.5"', 'lr = "0.4"')))
    with pytest.raises(
        RunError,
        match=r"study` holds the study `towers`, and this one is `bridges`; choose",
    ):
        run_study(other, one_cell)
    assert scores_of(one_cell) == before


def test_a_directory_that_holds_something_else_is_left_alone(study, directory):
    directory.mkdir()
    (directory / "thesis.tex").touch()
    with pytest.raises(RunError, match=r"already holds `thesis\.tex`"):
        run_study(study, directory)
    with pytest.raises(RunError, match=r"is no study \(no `study.json` in it\)"):
        read_data(directory)


# --- what goes on ------------------------------------------------------------------------------------------


def test_shared_stages_leave_one_state_and_no_encoder(study, directory):
    run_study(keeping(study, "all"), directory, only=ONE_CELL)
    (shared,) = (directory / "shared").iterdir()
    assert [path.name for path in (shared / "states").iterdir()] == ["01-00000000"]
    assert not (shared / "encoder").exists()
    assert not list((directory / "runs").glob("*/states"))
