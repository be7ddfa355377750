"""Progress of a study: `sentbed study status`, lines on runs, and what a terminal shows."""

from __future__ import annotations

import json

import pytest
from sentbed._registry.registry import load_plugins
from sentbed.tools import locked
from sentbed_report.study.read_study_directory import lock_of, read_data
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.progress import (
    activity,
    seconds_left,
    status_lines,
    watching,
)
from sentbed_studies.runner import run_study
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import read_study
from toy_plugin import TOWERS, quicken

AXES = """
[study]
seeds = [1, 2]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
STAGE = {"event": "stage_started", "stage": "nli", "total_steps": 10}
STEP = {
    "event": "step_finished",
    "stage": "nli",
    "step": 2,
    "total_steps": 10,
    "loss": 0.5,
}
DIVERGED = {**STEP, "loss": None}
EVALUATION = {"event": "evaluation_started", "encoder": "en", "evaluator": "sts"}
SAVED = {"event": "checkpoint_saved"}


def log(run, *events):
    run.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(event) + "\n" for event in events]
    (run / "log.jsonl").write_text("".join(lines))


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([], ""),
        ([SAVED], ""),
        ([STAGE], "stage nli"),
        ([STAGE, STEP, SAVED], "stage nli: step 2 of 10, loss 0.5000"),
        ([STAGE, DIVERGED], "stage nli: step 2 of 10"),
        ([STEP, EVALUATION], "evaluating en with sts"),
    ],
)
def test_the_end_of_a_log_says_what_a_run_does(tmp_path, events, text):
    log(tmp_path, *events)
    assert activity(tmp_path) == text


@pytest.mark.parametrize(
    ("took", "unfinished", "at_a_time", "seconds"),
    [
        ([], 3, 1, None),
        ([10.0], 0, 1, 0.0),
        ([10.0, 30.0], 3, 1, 60.0),
        ([10.0, 30.0], 3, 2, 30.0),
        ([10.0, 30.0], 3, 9, 20.0),
    ],
)
def test_the_time_left_is_that_of_the_mean_run(took, unfinished, at_a_time, seconds):
    assert seconds_left(took, unfinished, at_a_time) == seconds


@pytest.fixture
def study(
    put,
    installed_toy,
    monkeypatch,
):
    quicken(monkeypatch)
    return read_study(put("study.toml", TOWERS + AXES))


@pytest.fixture
def work(study):
    return plan_work("towers", study.runs, CellKeys(load_plugins()), False)


def test_lines_on_runs_and_the_status_say_what_is_left(study, work, tmp_path):
    lines = []
    directory = tmp_path / "out"
    run_study(study, directory, share=False, say=lines.append)
    assert ["left" in line for line in lines] == [True, True, True, False]

    first, second, third, fourth = work.tasks
    for task, seconds in ((first, 20.0), (second, 40.0)):
        report = directory / task.directory / "report.json"
        content = {**json.loads(report.read_text()), "seconds": seconds}
        report.write_text(json.dumps(content))
    for task in (third, fourth):
        log(directory / task.directory, STAGE, STEP)
        manifest = directory / task.directory / "manifest.json"
        manifest.write_text('{"status": "running"}')

    with locked(lock_of(directory, directory / third.directory)):
        data = read_data(directory)
        assert list(status_lines(data)) == [
            "study towers: 4 runs: 2 finished, 1 running, 1 interrupted",
            "  0.5, seed 1: finished in 20.0 s",
            "  0.5, seed 2: finished in 40.0 s",
            "  0.25, seed 1: running: stage nli: step 2 of 10, loss 0.5000",
            "  0.25, seed 2: interrupted: stage nli: step 2 of 10, loss 0.5000",
            "left: about 1 min, if the others take as long as the finished runs",
        ]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_shows_running_cells_below_what_is_printed(
    terminal,
    tmp_path,
    monkeypatch,
    capsys,
):
    if terminal:
        monkeypatch.setenv("TTY_COMPATIBLE", "1")
        monkeypatch.setenv("TTY_INTERACTIVE", "1")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setenv("TERM", "xterm")
    run = tmp_path / "runs" / "key"
    log(run, STAGE, STEP)
    (run / "manifest.json").write_text('{"status": "running", "name": "mean-seed1"}')
    with locked(lock_of(tmp_path, run)), watching(tmp_path) as say:
        say("a cell has finished [1]")
    printed = capsys.readouterr().err
    assert "a cell has finished [1]" in printed
    assert ("mean-seed1: stage nli: step 2 of 10" in printed) == terminal
