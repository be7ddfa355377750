from __future__ import annotations

import json
import math
import re

import attrs
import pytest
from sentbed.protocols import Evaluation, Run, Score, StepResult
from sentbed_trackers import console
from sentbed_trackers.console import ConsoleTracker
from sentbed_trackers.jsonl import JsonlTracker

SCORES = Evaluation((Score("STS12", "spearman", 71.234, {"id": "p"}),), 71.234)


@pytest.fixture
def tracker():
    """A tracker whose log is closed when the test ends."""
    log = JsonlTracker()
    yield log
    log.run_failed(RuntimeError("the test is over"))


@pytest.fixture
def info(recipe_of, tmp_path):
    (tmp_path / "out").mkdir()
    return Run("my-run", tmp_path / "out", recipe_of(), {})


def lines(info):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    text = (info.directory / "log.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


# --- log.jsonl ---------------------------------------------------------------------------------------------


def test_every_event_is_a_line_that_can_be_read_at_once(info, tracker):
    tracker.run_started(info)
    (line,) = lines(info)
    assert (line["event"], line["name"]) == ("run_started", "my-run")
    tracker.stage_started("nli", 5)
    tracker.step_finished("nli", 1, 4, StepResult(0.5, 1e-4, 2.0, {"accuracy": 0.25}))
    last = lines(info)[-1]
    assert last.pop("time") > 1.7e9
    assert last == {
        "event": "step_finished",
        "stage": "nli",
        "step": 1,
        "total_steps": 4,
        "loss": 0.5,
        "learning_rate": 1e-4,
        "grad_norm": 2.0,
        "metrics": {"accuracy": 0.25},
    }


def test_numbers_that_json_does_not_have_are_null(info, tracker):
    tracker.run_started(info)
    tracker.step_finished(
        "nli", 1, 4, StepResult(math.nan, 1e-4, math.inf, {"a": -math.inf, "b": 1.0})
    )
    tracker.scores_ready(
        Evaluation((Score("t", "m", math.nan, {"parts": [math.nan, 1.0]}),), math.nan)
    )
    _, step, scores = lines(info)
    assert (step["loss"], step["grad_norm"], step["metrics"]) == (
        None,
        None,
        {"a": None, "b": 1.0},
    )
    assert scores["scores"][0]["value"] is None
    assert scores["scores"][0]["protocol"] == {"parts": [None, 1.0]}


def test_a_resumed_log_has_no_event_twice(info, tracker):
    tracker.run_started(info)
    tracker.stage_started("nli", 3)
    tracker.step_finished("nli", 1, 4, StepResult(0.5, 1e-4, 2.0))
    state = tracker.tracker_state()
    assert state is not None
    states = json.loads(json.dumps(dict([state])))
    length = (info.directory / "log.jsonl").stat().st_size
    assert states == {"jsonl": {"bytes": length, "files": ["log.jsonl"]}}
    # Told after the checkpoint, and cut off in the middle by the end of the process.
    tracker.step_finished("nli", 2, 4, StepResult(0.4, 1e-4, 2.0))
    with (info.directory / "log.jsonl").open("a") as log:
        log.write('{"time": 1')

    resumed = JsonlTracker()
    resumed.run_resumed(info, states)
    resumed.step_finished("nli", 2, 4, StepResult(0.4, 1e-4, 2.0))
    resumed.run_finished()
    assert [line["event"] for line in lines(info)] == [
        "run_started",
        "stage_started",
        "step_finished",
        "run_resumed",
        "step_finished",
        "run_finished",
    ]


def test_what_was_watched_and_warned_of_is_logged(info, tracker):
    tracker.run_started(info)
    tracker.warned("digits may differ")
    tracker.observed("nli", 0, "en", attrs.evolve(SCORES, primary=math.nan))
    _, warned, observed = lines(info)
    assert (warned["event"], warned["message"]) == ("warned", "digits may differ")
    observed.pop("time")
    assert observed == {
        "event": "observed",
        "stage": "nli",
        "step": 0,
        "encoder": "en",
        "primary": None,
        "scores": [
            {
                "encoder": "",
                "evaluator": "",
                "task": "STS12",
                "metric": "spearman",
                "value": 71.234,
                "direction": "higher",
                "protocol": {"id": "p"},
            }
        ],
    }


# --- console -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_terminal")
def test_an_undefined_score_is_shown_as_undefined(info, capsys):
    (score, *_) = SCORES.scores
    undefined = Evaluation((attrs.evolve(score, value=math.nan),), math.nan)
    tracker = ConsoleTracker()
    tracker.run_started(info)
    tracker.scores_ready(undefined)
    tracker.stage_started("nli", 4)
    tracker.observed(2, "encoder", undefined)
    tracker.validated(2, math.nan, False)
    tracker.stage_finished("nli", math.nan, 4)
    shown = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
    assert shown[2:] == [
        "STS12 spearman p undefined",
        "training stage nli: 4 steps",
        "step 2: encoder: STS12 spearman undefined",
        "step 2: validation undefined",
        "stage nli keeps step 4, validation undefined",
    ]


def follow(tracker, info):
    tracker.run_started(info)
    tracker.evaluation_started("sts", "encoder@start")
    tracker.scores_ready(SCORES)
    tracker.stage_started("nli", 4)
    for step in range(1, 5):
        tracker.step_finished(step, 4, StepResult(1 / step, 1e-4, 1.0))
        if step == 2:
            tracker.validated(step, 80.125, True)
    tracker.stage_finished("nli", 80.125, 2)


@pytest.fixture
def no_terminal(monkeypatch):
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def terminal(no_terminal, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("no_terminal")
def test_without_a_terminal_plain_lines_go_to_standard_error(info, capsys, monkeypatch):
    monkeypatch.setattr(console, "LINE_EVERY_SECONDS", -1.0)
    follow(ConsoleTracker(), info)
    printed = capsys.readouterr()
    assert printed.out == ""
    shown = []
    for line in printed.err.splitlines():
        text, _, _ = " ".join(line.split()).partition(", about 0:00:")
        shown.append(text)
    assert shown == [
        f"my-run writes to {info.directory}",
        "evaluating encoder@start with sts",
        "task metric protocol value",
        "STS12 spearman p 71.23",
        "training stage nli: 4 steps",
        "nli: 1 of 4, loss 1.0000",
        "nli: 2 of 4, loss 0.5000",
        "step 2: validation 80.12 (kept)",
        "nli: 3 of 4, loss 0.3333, validation 80.12",
        "nli: 4 of 4, loss 0.2500, validation 80.12",
        "stage nli keeps step 2, validation 80.12",
    ]


@pytest.mark.usefixtures("no_terminal")
def test_without_a_terminal_steps_are_told_only_now_and_then(info, capsys):
    tracker = ConsoleTracker()
    tracker.run_started(info)
    tracker.stage_started("nli", 1000)
    for step in range(1, 1001):
        tracker.step_finished(step, 1000, StepResult(1.0, 1e-4, 1.0))
    assert capsys.readouterr().err.count("nli: 1 of") == 1


@pytest.mark.usefixtures("no_terminal")
def test_the_time_left_of_a_list_of_texts_is_not_that_of_the_list_before(
    info, capsys, monkeypatch
):
    monkeypatch.setattr(console, "LINE_EVERY_SECONDS", -1.0)
    tracker = ConsoleTracker()
    tracker.run_started(info)
    for _ in range(2):
        for done in range(1, 5):
            tracker.evaluation_progressed("sts", "encode", done, 4)
    begun = []
    for line in capsys.readouterr().err.splitlines():
        if line.startswith("sts: encode: 1 of 4"):
            begun.append("left" in line)
    # When a list has just begun, nothing is known of it.
    assert begun == [False, False]


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_a_bar_shows_steps_loss_and_validation(info, capsys):
    follow(ConsoleTracker(), info)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "\x1b[" in printed.err
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.err)
    bar = ""
    for line in re.split(r"[\r\n]", plain):
        if "4/4" in line:
            bar = line
    assert bar.split()[0] == "nli"
    assert "━" in bar
    assert "loss 0.2500, validation 80.12" in bar


@pytest.mark.usefixtures("no_terminal")
def test_a_failed_run_closes_the_bar_and_says_what_is_left(
    info,
    capsys,
    monkeypatch,
):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TTY_INTERACTIVE", "1")
    monkeypatch.setenv("TERM", "xterm")
    tracker = ConsoleTracker()
    tracker.run_started(info)
    tracker.stage_started("nli", 4)
    tracker.run_failed(info)
    printed = capsys.readouterr().err
    assert "\x1b[?25l" in printed
    assert printed.rindex("\x1b[?25h") > printed.rindex("\x1b[?25l"), (
        "the cursor stays hidden"
    )
    assert (
        f"the run ended early; what it had computed is in {info.directory}" in printed
    )


@pytest.mark.usefixtures("no_terminal")
@pytest.mark.parametrize(
    ("stage", "step", "where"),
    [
        (0, 0, "at stage pull step 0"),
        (0, 3, "at stage pull step 3"),
        (1, 0, "after its last stage"),
    ],
)
def test_a_resumed_run_says_where_it_goes_on(
    stage,
    step,
    where,
    info,
    capsys,
):
    info.facts["resumed"] = [{"stage": 9, "step": 9}, {"stage": stage, "step": step}]
    ConsoleTracker().run_resumed(info)
    assert (
        capsys.readouterr().err
        == f"my-run resumed {where}, writes to {info.directory}\n"
    )


@pytest.mark.usefixtures("terminal")
def test_the_bar_of_a_resumed_stage_begins_where_it_goes_on(info, capsys):
    info.facts["resumed"] = [{"stage": 0, "step": 3}]
    tracker = ConsoleTracker()
    tracker.run_resumed(info)
    tracker.stage_started("pull", 4)
    tracker.run_failed(info)
    assert "3/4" in capsys.readouterr().err


@pytest.mark.usefixtures("no_terminal")
def test_warnings_and_watched_scores_are_a_line_each(info, capsys):
    tracker = ConsoleTracker()
    tracker.run_started(info)
    capsys.readouterr()
    tracker.warned("the recipe has [changed]")

    geometry = (
        Score("dev", "alignment", 0.25, {"id": "wang-isola"}),
        Score("dev", "uniformity", -2.5, {"id": "wang-isola"}),
        Score("dev", "alignment", 0.25, {"id": "st5"}),
    )
    tracker.observed(100, "en", Evaluation(geometry, 2.25))

    many = []
    for number in range(6):
        many.append(Score(f"t{number}", "m", 10.0 * number, {"id": "p"}))
    tracker.observed(100, "zh", Evaluation(tuple(many), 1.0))

    assert capsys.readouterr().err.splitlines() == [
        "warning: the recipe has [changed]",
        "step 100: en: dev alignment 0.250, dev uniformity -2.500",
        "step 100: zh: t0 m 0.000, t1 m 10.00, t2 m 20.00, t3 m 30.00",
    ]


@pytest.mark.usefixtures("no_terminal")
def test_brackets_in_names_are_shown_as_they_are(info, tmp_path, capsys):
    name = "[red]runs[1][/]"
    bracketed = Run("r", tmp_path / name, info.recipe, {})
    tracker = ConsoleTracker()
    tracker.run_started(bracketed)
    tracker.scores_ready(Evaluation((Score(name, "spearman", 1.0, {}),), 1.0))
    tracker.run_failed(bracketed)
    assert capsys.readouterr().err.count(name) == 3
