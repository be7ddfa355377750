"""Evaluators that are added to, renamed in and taken out of a study whose cells have finished."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import TypeAlias

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed.errors import RunError
from sentbed_report.study.read_study_directory import read_data
from sentbed_studies import study_jobs
from sentbed_studies.runner import run_study
from sentbed_studies.study import read_study
from toy_plugin import TOWERS

AXES = """
[study]
seeds = [1]
KEEP
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
GAP = """
[[evaluate]]
use = "gap"
encoder = "zh"
at = ["start", "end"]
"""
NEARNESS = """
[[evaluate]]
use = "nearness"
encoder = "zh"
at = ["start", "end"]
"""
RECIPE = TOWERS.partition("[[evaluate]]")[0]

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("installed_toy", "quick")]

Scores: TypeAlias = dict[str, list[tuple[str, str, str, float]]]
"""Cell and seed -> encoder, evaluator, task and value of each score."""
Run: TypeAlias = Callable[..., Scores]


@pytest.fixture
def study_with(put):
    """Read two cells with these evaluations."""

    def read(*evaluations, keep="best"):
        axes = AXES.replace("KEEP", f'keep = "{keep}"')
        return read_study(put("study.toml", RECIPE + "".join(evaluations) + axes))

    return read


@pytest.fixture
def run(study_with, directory):
    """Run the study with these evaluations, and return the scores of each run, as the report has them."""

    def run(*evaluations, keep="best"):
        run_study(study_with(*evaluations, keep=keep), directory)
        scores = {}
        for cell in read_data(directory).cells:
            for of_cell in cell.runs:
                assert of_cell.status == "finished"
                scores[f"{cell.name}, {of_cell.seed}"] = [
                    (score.encoder, score.evaluator, score.task, score.value)
                    for score in of_cell.scores
                ]
        return scores

    return run


@pytest.fixture
def run_with_gap(installed_toy, quick, run, kept, directory):
    """A study that has run with the evaluator `gap`; the scores of each run."""
    if kept.exists():
        shutil.copytree(kept, directory)
        return run(GAP)
    scores = run(GAP)
    shutil.copytree(directory, kept)
    return scores


@pytest.fixture
def run_anew(run, directory):
    """Run the study with these evaluations from its beginning, and return the scores of each run."""

    def run_anew(*evaluations):
        directory.rename(directory.with_name("aside"))
        scores = run(*evaluations)
        directory.rename(directory.with_name("anew"))
        directory.with_name("aside").rename(directory)
        return scores

    return run_anew


def in_any_order(scores):
    return {name: sorted(of_run) for name, of_run in scores.items()}


def weights_of(directory):
    """Return time and content of the files of all encoders."""
    files = [path for path in directory.glob("runs/*/encoder/**/*") if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.usefixtures("run_with_gap")
def test_an_added_evaluator_is_computed_from_the_kept_encoders_to_the_bit(
    run, run_anew, directory, monkeypatch
):
    before = weights_of(directory)
    assert before
    whole = run_anew(GAP, NEARNESS)
    monkeypatch.setattr(
        study_jobs, "_run", lambda *_: pytest.fail("a cell was trained again")
    )
    added = run(GAP, NEARNESS)
    assert weights_of(directory) == before
    assert in_any_order(added) == in_any_order(whole)
    assert len({evaluator for _, evaluator, *_ in added["0.5, 1"]}) == 2
    monkeypatch.setattr(
        study_jobs, "add_evaluations", lambda *_: pytest.fail("it was computed again")
    )
    assert run(GAP, NEARNESS) == added


def test_a_dropped_evaluator_reruns_nothing_and_is_left_out_of_the_scores_until_it_is_back(
    run, monkeypatch
):
    whole = run(GAP, NEARNESS)
    for part in ("_run", "add_evaluations"):
        monkeypatch.setattr(
            study_jobs, part, lambda *_: pytest.fail("something was run")
        )
    for name, scores in run(NEARNESS).items():
        assert scores == [score for score in whole[name] if score[1] == "nearness"]
    assert run(GAP, NEARNESS) == whole


def test_a_renamed_evaluator_is_computed_again_and_nothing_is_trained(run, monkeypatch):
    before = run(NEARNESS)
    monkeypatch.setattr(
        study_jobs, "_run", lambda *_: pytest.fail("a cell was trained again")
    )
    for name, scores in run(NEARNESS + 'task = "closeness"\n').items():
        assert scores == [(*who, "closeness", value) for *who, _, value in before[name]]


@pytest.mark.usefixtures("run_with_gap")
def test_a_killed_evaluation_is_made_again(run, directory):
    whole = run(GAP, NEARNESS)
    deleted, killed, *_ = sorted(directory.glob("runs/*/added/*/manifest.json"))
    deleted.unlink()
    killed.write_text(json.dumps({"status": "running"}))
    assert run(GAP, NEARNESS) == whole


def test_an_encoder_that_was_not_saved_fails_its_own_evaluation_alone(
    run, run_with_gap, directory
):
    """As after a run in which the training of `zh` diverged, so that only `en` was saved."""
    of_en = NEARNESS.replace('"zh"', '"en"')
    whole = run(GAP, of_en)
    for cell in directory.glob("runs/*"):
        shutil.rmtree(cell / "added")
        shutil.rmtree(cell / "encoder" / "zh")
    assert run(GAP, of_en) == whole
    with pytest.raises(RunError, match=r"has not saved `zh`, since its training div"):
        run(GAP, of_en, NEARNESS)
    assert run(GAP, of_en) == whole


def test_without_a_kept_encoder_a_cell_is_trained_again_once_its_run_is_removed(
    run, run_anew, directory
):
    before = run(GAP, keep="scores")
    with pytest.raises(RunError, match="has kept no encoder to evaluate; remove it"):
        run(GAP, NEARNESS, keep="scores")
    assert run(GAP, keep="scores") == before
    shutil.rmtree(directory / "runs")
    assert run(GAP, NEARNESS, keep="scores") == run_anew(GAP, NEARNESS)


@pytest.fixture
def stopped(run, directory, monkeypatch):
    """Run the study with these evaluations until a cell is to be saved; return its `keys.json`."""

    def interrupted(*_):
        raise RunError("stopped")

    def stop(*evaluations):
        with monkeypatch.context() as patch:
            patch.setattr("sentbed._run.runner._save", interrupted)
            with pytest.raises(RunError, match="stopped"):
                run(*evaluations)
        (keys,) = directory.glob("runs/*/keys.json")
        return keys

    return stop


def test_a_stopped_cell_goes_on_with_its_evaluations_and_is_given_the_others(
    stopped, run, run_anew
):
    stopped(GAP)
    assert in_any_order(run(NEARNESS, GAP)) == in_any_order(run_anew(NEARNESS, GAP))


def test_a_stopped_cell_whose_evaluators_were_edited_since_goes_on_and_is_evaluated_anew(
    stopped, run, run_anew, directory
):
    keys = stopped(GAP, NEARNESS)
    content = json.loads(keys.read_text())
    # As by other code of the evaluators.
    content["evaluations"] = [f"other {number}" for number in range(4)]
    keys.write_text(json.dumps(content))
    assert run(GAP, NEARNESS) == run_anew(GAP, NEARNESS)
    # The scores before training; those at the end are made by the code of now.
    assert len(list(keys.parent.glob("added/*"))) == 2
    assert len(list(directory.glob("runs/*/added/*"))) == 2


def plan(directory, *more):
    arguments = [
        "study",
        str(directory.with_name("study.toml")),
        "--out",
        str(directory),
        "--dry-run",
    ]
    result = CliRunner().invoke(main, [*arguments, *more])
    assert result.exit_code == 0, result.output
    return list(map(str.strip, result.output.splitlines()))


@pytest.mark.usefixtures("run_with_gap")
def test_the_plan_says_what_is_added_and_left_out(study_with, directory):
    study_with(NEARNESS, GAP)
    lines = plan(directory)
    assert lines[0] == "study towers: 2 cells x 1 seed = 2 runs, 0 finished"
    assert "evaluated, not trained again: 2 finished runs, with `nearness`" in lines
    lines = plan(directory, "--set", "stage.pairs.batch_size=3")
    assert "left out: 2 finished runs under other keys; they stay on disk" in lines
