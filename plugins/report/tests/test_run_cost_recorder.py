from __future__ import annotations

import json
from importlib.metadata import distribution

import pytest
from sentbed import RunError, hookimpl, load_recipe, resume, run
from sentbed._registry.registry import load_plugins
from sentbed.protocols import Run
from sentbed_report.run_cost import RunCost, recorded_cost
from sentbed_report.run_cost_recorder import RunCostRecorder
from toy_plugin import RECIPE, Pull, quicken

CHECKPOINTS = f"{RECIPE}\n[checkpoint]\nevery = 2\n"
STEP_SECONDS = 3.0
"""Processor time of a step by the clock of `Steps`."""


@pytest.fixture
def plugins(toy_points):
    """The toy plugin, core's trackers and this distribution."""
    points = distribution("sentbed-report").entry_points.select(group="sentbed")
    return load_plugins(dict.fromkeys([*toy_points, *points]))


@pytest.fixture
def load(put, plugins, monkeypatch):
    quicken(monkeypatch)
    return lambda text: load_recipe(put("recipe.toml", text), plugins=plugins)


class Steps:
    """Counts steps, also those that are taken again; Ctrl-C at the `stop`-th one."""

    required = True

    def __init__(self):
        self.stop = 0
        self.steps = 0

    @hookimpl(tryfirst=True)
    def step_finished(self):
        self.steps += 1
        if self.steps == self.stop:
            raise KeyboardInterrupt


@pytest.fixture
def steps(plugins, monkeypatch):
    """Processor time that goes on by `STEP_SECONDS` a step."""
    steps = Steps()
    plugins.manager.register(steps)
    monkeypatch.setattr(
        "sentbed_report.run_cost_recorder.processor_seconds",
        lambda: STEP_SECONDS * steps.steps,
    )
    return steps


def cost_of(directory):
    cost = recorded_cost(json.loads((directory / "report.json").read_text()))
    assert cost is not None
    return cost


def tokens_of(recipe):
    """Tokens of all rows in all epochs: one for the beginning, and one a character."""
    (stage,) = recipe.stage
    data = stage.data.open()
    lengths = [min(16, 1 + len(text)) for text in data.texts(["anchor", "positive"])]
    return (stage.epochs or 0) * sum(lengths)


def test_a_run_records_what_it_took(load, plugins, tmp_path):
    recipe = load(RECIPE)
    run(recipe, tmp_path / "out", plugins)
    cost = cost_of(tmp_path / "out")
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert 0 < (cost.seconds or 0) <= report["seconds"]
    assert (cost.processor_seconds or 0) > 0
    assert cost.tokens == tokens_of(recipe) > 0
    # The toy's engine counts no parameters and has no device.
    assert cost.parameters is cost.device_seconds is cost.device_memory is None


def test_a_resumed_run_adds_up_its_parts_and_not_what_is_done_again(
    load, plugins, tmp_path, steps
):
    recipe = load(CHECKPOINTS)
    steps.stop = 3
    with pytest.raises(KeyboardInterrupt):
        run(recipe, tmp_path / "out", plugins)
    stopped = cost_of(tmp_path / "out")
    assert stopped.processor_seconds == 3 * STEP_SECONDS
    resume(tmp_path / "out", recipe, plugins)
    whole = cost_of(tmp_path / "out")
    # Six steps, of which the third one was taken twice.
    assert steps.steps == 7
    assert whole.processor_seconds == 6 * STEP_SECONDS
    assert whole.tokens == tokens_of(recipe) > (stopped.tokens or 0) > 0
    assert (whole.seconds or 0) > 0


def test_a_second_run_in_the_process_begins_at_zero(load, plugins, tmp_path, steps):
    recipe = load(RECIPE)
    for name in ("first", "second"):
        run(recipe, tmp_path / name, plugins)
        cost = cost_of(tmp_path / name)
        assert (cost.processor_seconds, cost.tokens) == (
            6 * STEP_SECONDS,
            tokens_of(recipe),
        )


def test_a_run_that_failed_records_what_it_took_until_then(
    load, plugins, tmp_path, monkeypatch
):
    def broken(*_):
        raise RunError("out of paper")

    monkeypatch.setattr(Pull, "build", broken)
    with pytest.raises(RunError, match="paper"):
        run(load(RECIPE), tmp_path / "out", plugins)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["status"] == "failed"
    cost = cost_of(tmp_path / "out")
    assert cost.tokens == 0
    assert (cost.seconds or 0) > 0


class Doomed:
    """A plugin without which no run can be, and which fails before the others hear of the run."""

    required = True

    @hookimpl(tryfirst=True)
    def run_started(self):
        raise RunError("no room")


@pytest.mark.parametrize("after", [0, 1], ids=["the first", "after another"])
def test_a_run_that_fails_before_it_begins_has_no_cost(load, plugins, tmp_path, after):
    for number in range(after):
        run(load(RECIPE), tmp_path / f"before-{number}", plugins)

    plugins.manager.register(Doomed())
    with pytest.raises(RunError, match="no room"):
        run(load(RECIPE), tmp_path / "out", plugins)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["status"] == "failed"
    assert recorded_cost(report) is None


@pytest.mark.parametrize(
    ("engine", "seconds"),
    [
        ({"device": "abacus"}, None),
        ({"platform": "cpu", "devices": 8}, None),
        ({"platform": "tpu", "devices": 4}, 40.0),
        ({"memory_gib": 80.0}, 10.0),
        ({"memory_gib": 80.0, "processes": 2}, 20.0),
    ],
)
def test_device_seconds_count_every_device_beside_the_processor(
    engine, seconds, monkeypatch, tmp_path
):
    clock = iter([100.0, 110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    recorder = RunCostRecorder()
    counters = {} if seconds is None else {"device_memory_gib": 2.0}
    started = Run("r", tmp_path, None, {"engine": engine, "counters": counters})
    recorder.run_started(started)
    _, state = recorder.tracker_state(started) or ("", {})
    cost = RunCost(**state)
    assert cost.device_seconds == seconds
    assert cost.device_memory == (None if seconds is None else 2048.0)
