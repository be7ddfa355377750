from __future__ import annotations

import json
import time
from fractions import Fraction

import pytest
from sentbed._registry.registry import load_plugins
from sentbed.tools import locked
from sentbed_report.study.read_study_directory import lock_of, read_data
from sentbed_studies import progress_display
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.progress_display import ProgressDisplay
from sentbed_studies.run_progress import RunLog
from sentbed_studies.runner import run_study
from sentbed_studies.shared_work_plan import plan_work
from sentbed_studies.study import read_study
from sentbed_studies.study_status import status_of
from sentbed_studies.time_left import TimeLeft
from sentbed_studies.write_study_directory import at_work as writing
from toy_plugin import TOWERS, quicken

AXES = """
[study]
seeds = [1, 2]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""
NOW = 1_000_000.0


def log(run, *events):
    run.mkdir(parents=True, exist_ok=True)
    with (run / "log.jsonl").open("a") as file:
        for at, event, more in events:
            file.write(json.dumps({"time": NOW + at, "event": event, **more}) + "\n")


def step(at, number):
    loss = float(1 / Fraction(number))
    return at, "step_finished", {"stage": "nli", "step": number, "loss": loss}


STARTED = (0.0, "run_started", {"name": "n"})
STAGE = (2.0, "stage_started", {"stage": "nli", "total_steps": 10})


# --- one run -----------------------------------------------------------------------------------------------


def test_a_run_says_its_step_its_loss_its_time_and_what_is_left(tmp_path):
    followed = RunLog(tmp_path)
    assert followed.progress(now=NOW) is None
    log(tmp_path, STARTED)
    assert str(followed.progress(now=NOW + 1)) == "starting, 1.0 s"
    log(tmp_path, STAGE, step(4, 1))
    assert (
        str(followed.progress(now=NOW + 4))
        == "stage nli: step 1 of 10, loss 1.0000, 4.0 s"
    )
    log(tmp_path, step(7, 2), step(10, 3))
    # Three seconds a step: seven more.
    assert str(followed.progress(now=NOW + 11)) == (
        "stage nli: step 3 of 10, loss 0.3333, 11.0 s, about 21.0 s left"
    )
    # The whole run takes longer than the stage.
    assert str(followed.progress(100.0, now=NOW + 11)).endswith(
        ", 11.0 s, about 1 min 29 s left"
    )
    log(tmp_path, (40.0, "stage_finished", {"stage": "nli"}))
    log(tmp_path, (41.0, "evaluation_started", {"encoder": "en", "evaluator": "sts"}))
    assert str(followed.progress(now=NOW + 42)) == "evaluating en with sts, 42.0 s"


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path):
    followed = RunLog(tmp_path)
    log(tmp_path, STARTED, STAGE)
    line = json.dumps(
        {
            "time": NOW + 4,
            "event": "step_finished",
            "stage": "nli",
            "step": 1,
            "loss": 0.5,
        }
    )
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(line[:30])
    assert str(followed.progress(now=NOW + 5)) == "stage nli, 5.0 s"
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(line[30:] + "\n")
    assert (
        str(followed.progress(now=NOW + 5))
        == "stage nli: step 1 of 10, loss 0.5000, 5.0 s"
    )


@pytest.mark.parametrize(
    "line",
    [
        "\0\0\0",
        "3",
        "{}",
        '{"event": "stage_started", "stage": "nli"}',
        '{"event": "run_resumed", "time": "now"}',
        '{"event": "step_finished", "stage": "x", "step": 2, "time": [], "loss": 1}',
        '{"event": "step_finished", "stage": "x", "step": Infinity, "time": 1, "loss": 1}',
    ],
    ids=range(7),
)
def test_a_damaged_line_of_the_log_is_left_out(line, tmp_path):
    followed = RunLog(tmp_path)
    log(tmp_path, STARTED, STAGE, step(4, 1))
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write(line + "\n")
    log(tmp_path, step(10, 3))
    assert str(followed.progress(now=NOW + 11)) == (
        "stage nli: step 3 of 10, loss 0.3333, 11.0 s, about 21.0 s left"
    )


@pytest.mark.parametrize("number", [10**400, -(10**308)])
def test_a_number_of_steps_that_is_too_large_is_no_error(number, tmp_path):
    log(
        tmp_path,
        STARTED,
        (2.0, "stage_started", {"stage": "nli", "total_steps": 1e308}),
    )
    log(tmp_path, step(4, number), step(5, 10))
    assert str(RunLog(tmp_path).progress(now=NOW + 6)).startswith("stage nli: step 10")


def test_a_resumed_run_counts_from_where_it_was_resumed(tmp_path):
    followed = RunLog(tmp_path)
    log(tmp_path, STARTED, STAGE, step(4, 1), step(500, 2), step(900, 3))
    assert followed.progress(now=NOW + 900) is not None
    # A resumed run cuts its log.
    (tmp_path / "log.jsonl").unlink()
    log(tmp_path, STARTED, STAGE, step(4, 1), (1000.0, "run_resumed", {"name": "n"}))
    log(tmp_path, step(1001, 2), step(1003, 3))
    assert str(followed.progress(now=NOW + 1004)) == (
        "stage nli: step 3 of 10, loss 0.3333, 4.0 s, about 14.0 s left"
    )


# --- a study -----------------------------------------------------------------------------------------------


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
    return plan_work(study.cells, CellKeys(load_plugins()), False)


def at_work(run, began):
    shift = began - NOW
    log(
        run,
        *(
            (at + shift, event, more)
            for at, event, more in (STARTED, STAGE, step(4, 1), step(6, 2))
        ),
    )
    (run / "manifest.json").write_text(json.dumps({"status": "running"}))


def test_status_shows_how_far_running_cells_are_and_where_killed_ones_were(
    study, work, tmp_path
):
    with writing(tmp_path, study, work):
        pass
    run = tmp_path / work.tasks[1].directory
    at_work(run, time.time() - 10)
    with locked(lock_of(tmp_path, run)):
        data = read_data(tmp_path)
        (line,) = (
            line
            for line in status_of(data).lines()
            if line.startswith("  0.5, seed 2: ")
        )
        (progress,) = (
            entry["progress"]
            for entry in status_of(data).table()["runs"]
            if entry["progress"]
        )
    assert line.startswith(
        "  0.5, seed 2: running: stage nli: step 2 of 10, loss 0.5000, 1"
    )
    assert line.endswith(", about 16.0 s left")
    assert (progress["step"], progress["steps"], progress["left"]) == (2, 10, 16.0)

    killed = list(status_of(read_data(tmp_path)).lines())
    assert "  0.5, seed 2: interrupted at stage nli: step 2 of 10" in killed


def test_status_has_the_time_left_by_the_mean_of_the_finished_runs(
    study, work, tmp_path
):
    run_study(study, tmp_path / "out", work=work, only=[{"lr": "0.5"}])
    reports = sorted(tmp_path.glob("out/runs/*/report.json"))
    for report, seconds in zip(reports, (20.0, 40.0), strict=True):
        report.write_text(
            json.dumps({**json.loads(report.read_text()), "seconds": seconds})
        )
    data = read_data(tmp_path / "out")
    *_, line = status_of(data).lines()
    assert line == (
        "left: about 1 min, with one run at a time, if they take as long as the finished ones"
    )
    assert status_of(data).table()["seconds_left"] == 60.0


def test_what_is_at_work_is_shown_and_what_was_killed_before_is_not(work, tmp_path):
    watched = ProgressDisplay(
        tmp_path,
        work,
        TimeLeft({work.tasks[2].directory}, took={work.tasks[1].directory: 56.0}),
        started=NOW - 1,
    )
    at_work(tmp_path / work.tasks[0].directory, NOW - 500)
    at_work(tmp_path / work.tasks[2].directory, NOW)
    (line,) = watched.lines()
    assert line.startswith("0.25, seed 1: stage nli: step 2 of 10, loss 0.5000, ")
    (tmp_path / work.tasks[2].directory / "manifest.json").write_text(
        json.dumps({"status": "finished"})
    )
    assert watched.lines() == []
    assert watched.text().plain == "all runs: 56.0 s left"


def test_a_finished_run_that_lacks_an_evaluation_is_shown_when_it_is_trained_again(
    work, tmp_path
):
    watched = ProgressDisplay(tmp_path, work, TimeLeft(), started=NOW - 100)
    run = tmp_path / work.tasks[0].directory
    at_work(run, NOW)
    (run / "manifest.json").write_text(json.dumps({"status": "finished"}))
    assert watched.lines() == []
    (run / "manifest.json").write_text(json.dumps({"status": "running"}))
    (line,) = watched.lines()
    assert line.startswith("0.5, seed 1: stage nli: step 2 of 10")


def test_where_there_is_no_terminal_running_cells_are_lines_now_and_then(
    study,
    work,
    tmp_path,
    monkeypatch,
    capsys,
):
    monkeypatch.setattr(progress_display, "EVERY", 0.01)
    read_lines = ProgressDisplay.lines
    slow = []

    def lines(watched):
        slow.append(read_lines(watched))
        return slow[-1]

    monkeypatch.setattr(ProgressDisplay, "lines", lines)
    at_work(tmp_path / work.tasks[0].directory, time.time() + 5)
    with progress_display.watching(tmp_path, work, TimeLeft()) as say:
        while len(slow) < 3:
            time.sleep(0.01)
        say("a cell has finished [1]")
    printed = capsys.readouterr().err.splitlines()
    assert "a cell has finished [1]" in printed
    assert (
        sum(line.startswith("0.5, seed 1: stage nli: step 2 of 10") for line in printed)
        >= 2
    )
    ended = len(slow)
    time.sleep(0.05)
    assert len(slow) == ended


def test_on_a_terminal_they_are_always_in_sight_below_what_is_printed(
    work,
    tmp_path,
    monkeypatch,
    capsys,
):
    terminal = {
        "TTY_COMPATIBLE": "1",
        "TTY_INTERACTIVE": "1",
        "COLUMNS": "200",
        "TERM": "xterm",
    }
    for name, value in terminal.items():
        monkeypatch.setenv(name, value)
    at_work(tmp_path / work.tasks[0].directory, time.time() + 5)
    left = TimeLeft({work.tasks[1].directory}, took={work.tasks[2].directory: 56.0})
    with progress_display.watching(tmp_path, work, left) as say:
        say("a cell has finished [1]")
    printed = capsys.readouterr().err
    assert "a cell has finished [1]" in printed
    assert "0.5, seed 1: stage nli: step 2 of 10, loss 0.5000" in printed
    assert "all runs: 56.0 s left" in printed
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l"), (
        "the cursor stays hidden"
    )


def test_runs_of_a_study_leave_logs_that_can_be_followed(study, work, tmp_path):
    run_study(study, tmp_path / "out", work=work)
    for task in work.tasks:
        followed = RunLog(tmp_path / "out" / task.directory)
        assert followed.progress() is not None
        assert followed.began is not None
