from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from sentbed import (
    PluginError,
    RunError,
    hookimpl,
    load_recipe,
    run,
)
from sentbed import resume as resume_run
from sentbed._files import locked, read_json
from sentbed._registry.registry import load_plugins
from sentbed._run.run_directory import LOCK
from toy_dataset import ToyDataset
from toy_plugin import RECIPE, TOWERS, Centre, SgdTrainer, quicken

NOISY = 'loss = { use = "pull", noise = 0.1, memory = 0.5 }'
LUCKY = """
validate = { every = 2, with = { use = "lottery" } }
watch = [{ every = 3, with = { use = "gap" } }, { every = 2, with = { use = "lottery" } }]
"""
RUN = (
    TOWERS.replace('loss = { use = "pull" }', NOISY)
    .replace('use = "sgd", lr = 0.5', 'use = "sgd", lr = 0.5, momentum = 0.9')
    .replace("epochs = 2", f"epochs = 2\n{LUCKY}")
) + '\n[[tracker]]\nuse = "notes"\n'
"""Ten steps in two stages; noise, validation and watch draw from one generator."""

HOOKS = (
    "run_started",
    "run_resumed",
    "evaluation_started",
    "scores_ready",
    "stage_started",
    "step_finished",
    "validated",
    "observed",
    "checkpoint_saved",
    "tracker_state",
    "stage_finished",
)


@pytest.fixture
def plugins(toy_points):
    """All but the console, which would only be slow."""
    return load_plugins(point for point in toy_points if point.name != "console")


@pytest.fixture
def resume(plugins):
    """`sentbed.resume` with the plugins of the test; by default, with the recipe that the run has written."""

    def with_recipe(directory, recipe=None):
        if recipe is None and (directory / "resolved.toml").is_file():
            recipe = load_recipe(directory / "resolved.toml", plugins=plugins)
        return resume_run(directory, recipe, plugins)

    return with_recipe


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    quicken(monkeypatch)


class Stop:
    """Raises at the `at`-th call of a hook, before the history and the trackers hear of it."""

    required = True

    def __init__(self, at, error=KeyboardInterrupt):
        self.left, self.error = at, error

    def count(self):
        self.left -= 1
        if not self.left:
            raise self.error("stopped")


class LateStop(Stop):
    """As `Stop`, but after all others."""


for hook in HOOKS:
    # Each hook has a function of its own, because the mark is an attribute of the function.
    setattr(Stop, hook, hookimpl(tryfirst=True)(lambda self: self.count()))
    setattr(LateStop, hook, hookimpl(trylast=True)(lambda self: self.count()))


class StopAtStep:
    """Ctrl-C at the `at`-th step that it sees."""

    error = KeyboardInterrupt
    required = True

    def __init__(self, at):
        self.at, self.steps = at, 0

    @hookimpl(trylast=True)
    def step_finished(self):
        self.steps += 1
        if self.at == self.steps:
            raise self.error


def stopping(plugins, stop, go):
    """Whether `go` was stopped."""
    plugins.manager.register(stop)
    try:
        go()
    except stop.error:
        return True
    finally:
        plugins.manager.unregister(stop)
    return False


def events(directory):
    """The log, without what tells that the run was resumed, and when."""
    kept = []
    for text in (directory / "log.jsonl").read_text().splitlines():
        line = json.loads(text)
        for key in ("time", "path", "report"):
            line.pop(key, None)
        resumed = line["event"] in ("run_started", "run_resumed", "warned")
        if not resumed and not (line["event"] == "stage_started" and line in kept):
            kept.append(line)
    return kept


def contents(directory):
    """What is in every file below a directory."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def outcome(directory):
    """Everything that a run that was stopped must have as one that was not."""
    report = read_json(directory / "report.json")
    files = contents(directory / "encoder") | contents(directory / "checkpoints")
    return {
        "files": {path.relative_to(directory): files[path] for path in files},
        "log": events(directory),
        "notes": (directory / "notes.txt").read_text(),
        "report": {
            key: report[key] for key in ("scores", "stages", "expected", "status")
        },
        "data": report["manifest"]["data"],
    }


@pytest.fixture(scope="module")
def whole(toy_points, tmp_path_factory):
    """What comes out of `RUN` when nothing stops it."""
    directory = tmp_path_factory.mktemp("whole")
    (directory / "recipe.toml").write_text(RUN)
    plugins = load_plugins(toy_points)
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        run(
            load_recipe(directory / "recipe.toml", plugins=plugins),
            directory / "out",
            plugins,
        )
    whole_outcome = outcome(directory / "out")
    assert len(whole_outcome["report"]["stages"]) == 2
    assert len(whole_outcome["files"]) > 5
    return whole_outcome


def warnings_of(directory):
    return read_json(directory / "report.json")["warnings"]


def stop_at(plugins, recipe, out, step):
    """Run for so many steps, counting those of all stages; returns the run directory."""
    assert stopping(plugins, StopAtStep(step), lambda: run(recipe, out, plugins))
    return out


@pytest.fixture
def stopped_at(recipe_of, plugins, tmp_path):
    """Run `RUN` with these overrides, and stop it after a step; returns the run directory."""

    def run_until(step, *overrides):
        return stop_at(plugins, recipe_of(RUN, *overrides), tmp_path / "out", step)

    return run_until


# --- stopped anywhere, to the bit --------------------------------------------------------------------------


EVERY_STEP = tuple(range(1, 11))
SOME_STEPS = (1, 5, 6, 10)


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("every", "steps"),
    [(2, SOME_STEPS), (2, EVERY_STEP), (1, EVERY_STEP), (3, EVERY_STEP)],
)
def test_a_run_interrupted_at_any_step_and_resumed_ends_as_one_that_was_not(
    every, steps, recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN, f"checkpoint.every={every}")
    for step in steps:
        out = stop_at(plugins, recipe, tmp_path / str(step), step)
        resume(out)
        assert outcome(out) == whole, f"stopped at step {step}"


def test_a_run_stopped_before_or_in_the_fit_of_a_transform_ends_as_one_that_was_not(
    recipe_of, plugins, tmp_path, monkeypatch, resume
):
    transform = 'encoders.zh.head.transform={ use = "centre", data = { use = "words", rows = 5 } }'
    recipe = recipe_of(RUN, transform, "evaluate.0.second=zh")
    run(recipe, tmp_path / "whole", plugins)
    whole = outcome(tmp_path / "whole")
    assert (
        whole["report"]["scores"][1]["protocol"]["encoder"]["transform"]["texts"] == 10
    )
    stopped = stop_at(plugins, recipe, tmp_path / "stopped", 8)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Centre, "fit", stop)
        with pytest.raises(KeyboardInterrupt):
            run(recipe, tmp_path / "fitting", plugins)
    for out in (stopped, tmp_path / "fitting"):
        resume(out)
        assert outcome(out) == whole


class AtCheckpoint:
    """Ctrl-C as soon as the best weights after a step are kept."""

    error = KeyboardInterrupt
    required = True

    @hookimpl(trylast=True)
    def checkpoint_saved(self, step, path):
        if step > 0:
            self.path = path
            raise KeyboardInterrupt


def test_the_moving_average_that_was_best_is_saved_when_the_run_is_interrupted_at_once(
    recipe_of, plugins, tmp_path
):
    validate = (
        'stage.0.validate={ every = 1, with = { use = "gap", development = true } }'
    )
    recipe = recipe_of(RECIPE, "stage.0.ema=0.5", validate)
    stop = AtCheckpoint()
    assert stopping(plugins, stop, lambda: run(recipe, tmp_path / "out", plugins))
    saved = tmp_path / "out" / "encoder" / "backbone" / "embedding.npy"
    (kept,) = stop.path.glob("*/backbone/embedding.npy")
    np.testing.assert_array_equal(np.load(saved), np.load(kept))


class AskAtStep(StopAtStep):
    """A signal that comes during the `at`-th step."""

    @hookimpl(tryfirst=True)
    def step_finished(self):
        self.steps += 1
        if self.at == self.steps:
            signal.raise_signal(signal.SIGTERM)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("steps", [SOME_STEPS, EVERY_STEP])
def test_a_run_asked_to_end_at_any_step_and_resumed_ends_as_one_that_was_not(
    steps, recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN)
    for step in steps:
        out = tmp_path / str(step)
        assert stopping(plugins, AskAtStep(step), lambda: run(recipe, out, plugins))  # noqa: B023
        resume(out)
        assert outcome(out) == whole, f"asked to end at step {step}"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "each"), [(Stop, 1), (LateStop, 3)])
def test_a_run_interrupted_at_any_event_and_resumed_ends_as_one_that_was_not(
    kind, each, recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN, "checkpoint.every=2")
    for at in range(1, 1000, each):
        out = tmp_path / str(at)
        if not stopping(plugins, kind(at), lambda: run(recipe, out, plugins)):  # noqa: B023
            break
        resume(out)
        assert outcome(out) == whole, f"stopped at event {at}"
    assert at > 40


@pytest.mark.sweep(1)
@pytest.mark.parametrize("error", [KeyboardInterrupt, PluginError])
def test_a_run_stopped_again_and_again_ends_as_one_that_was_not(
    error, recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN, "checkpoint.every=1")
    out = tmp_path / "out"
    go = lambda: run(recipe, out, plugins)  # noqa: E731
    stops = 0
    while stopping(plugins, Stop(10, error), go):
        stops += 1
        assert stops < 20
        go = lambda: resume(out)  # noqa: E731
    assert stops > 3
    assert outcome(out) == whole


class Killer:
    """Ends the process, as SIGKILL would, at the `at`-th time that a file or directory gets its place."""

    def __init__(self, at):
        self.left = at

    def patch(self, patch):
        for owner, name in (
            (Path, "mkdir"),
            (Path, "rename"),
            (Path, "replace"),
            (shutil, "rmtree"),
            (SgdTrainer, "save"),
        ):
            patch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function):
        def call(*arguments, **keywords):
            self.left -= 1
            if not self.left:
                os._exit(9)
            return function(*arguments, **keywords)

        return call


def killed(at, go):
    """Do it in a process of its own that is killed; whether that happened before the end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with pytest.MonkeyPatch.context() as patch:
                Killer(at).patch(patch)
                go()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9)
    return code == 9


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_run_killed_while_it_writes_and_resumed_ends_as_one_that_was_not(
    recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN, "checkpoint.every=1")
    resumed = 0
    for at in range(3, 10_000, 11):
        out = tmp_path / str(at)
        if not killed(at, lambda: run(recipe, out, plugins)):  # noqa: B023
            break
        manifest = out / "manifest.json"
        if not manifest.exists() or read_json(manifest)["status"] == "finished":
            continue
        if resumed % 2:
            killed(at // 2 + 1, lambda: resume(out))  # noqa: B023
        if read_json(manifest)["status"] != "finished":
            resume(out)
            assert sorted(p.name for p in out.glob(".*")) == [LOCK]
            assert outcome(out) == whole, f"killed at {at}"
        resumed += 1
    assert resumed > 10


# --- states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("minutes", "count"), [(0, 10), (10, 0)])
def test_states_are_also_saved_by_time(minutes, count, plugins, run_recipe):
    saved = []

    class Look:
        @hookimpl
        def tracker_state(self):
            saved.append(1)

    plugins.manager.register(Look())
    run_recipe(RUN, f"checkpoint.minutes={minutes}")
    # Beside the one at the start and one after each stage.
    assert len(saved) == 3 + count


def test_trackers_are_given_what_they_had_and_the_history_goes_on(
    recorder, stopped_at, resume
):
    out = stopped_at(3, "checkpoint.every=2")
    events_before = recorder.names.index("step_finished") + 2
    recorder.events.clear()
    resume(out)
    (resumed,) = [details for name, details in recorder.events if name == "run_resumed"]
    assert resumed["state"]["events"] >= events_before
    assert recorder.names[:2] == ["run_resumed", "stage_started"]
    manifest = read_json(out / "manifest.json")
    assert manifest["resumed"] == [{"stage": 0, "step": 2}]
    assert manifest["status"] == "finished"


def test_a_run_stopped_before_its_first_state_starts_again(
    recipe_of, plugins, whole, recorder, tmp_path, resume
):
    out = tmp_path / "out"
    assert stopping(plugins, Stop(3), lambda: run(recipe_of(RUN), out, plugins))
    recorder.events.clear()
    resume(out)
    assert recorder.names[:2] == ["run_started", "evaluation_started"]
    assert outcome(out) == whole


# --- another recipe ----------------------------------------------------------------------------------------


def test_a_run_goes_on_with_another_recipe_and_warns(recipe_of, stopped_at, resume):
    out = stopped_at(8, "checkpoint.every=1")
    resume(out, recipe_of(RUN, "checkpoint.every=1", "run.seed=8"))
    (warning,) = warnings_of(out)
    assert warning.startswith("the recipe is not that with which the run was started")


def test_a_run_warns_where_its_data_have_changed(stopped_at, resume, monkeypatch):
    out = stopped_at(8, "checkpoint.every=1")
    monkeypatch.setattr(ToyDataset, "fingerprint", "of other rows")
    resume(out)
    assert "has changed since the run began" in "\n".join(warnings_of(out))


def test_a_stage_that_has_become_shorter_ends(recipe_of, stopped_at, resume):
    out = stopped_at(9, "checkpoint.every=1")
    shorter = recipe_of(RUN, "stage.1.epochs=", "stage.1.steps=1")
    resume(out, shorter)
    assert read_json(out / "manifest.json")["status"] == "finished"


def test_a_stage_that_a_run_has_not_begun_may_change(recipe_of, stopped_at, resume):
    out = stopped_at(3, "checkpoint.every=1")
    changed = recipe_of(
        RUN, "checkpoint.every=1", "stage.tune.name=other", 'stage.1.train="en"'
    )
    resume(out, changed)
    names = [line["stage"] for line in events(out) if line["event"] == "stage_finished"]
    assert names == ["pairs", "other"]


# --- refused without harm ----------------------------------------------------------------------------------


@pytest.mark.parametrize("manifest", [None, '{"status": "finished"}'])
def test_a_directory_without_a_run_that_has_not_finished_cannot_be_resumed(
    manifest, tmp_path, resume
):
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = contents(tmp_path)
    with pytest.raises(RunError, match=str(tmp_path)):
        resume(tmp_path)
    assert contents(tmp_path) == before


def test_a_run_is_locked_while_it_goes_on_and_not_afterwards(
    plugins, run_recipe, resume
):
    refused = []

    class Look:
        @hookimpl
        def step_finished(self, run):
            with pytest.raises(RunError, match="another process is at work"):
                resume(run.directory)
            refused.append(1)

    plugins.manager.register(Look())
    out = run_recipe(RUN).directory
    assert len(refused) == 10
    with locked(out / LOCK) as free:
        assert free


def test_what_killed_processes_left_is_removed_at_the_end_and_nothing_else(
    stopped_at, resume
):
    stopped = stopped_at(10, "checkpoint.every=1")
    kept, *_ = (stopped / "checkpoints" / "pairs").glob("kept-*")
    left = [
        stopped / ".encoder.0a1b2c3d.tmp",
        stopped / ".manifest.json.0a1b2c3d.tmp",
        stopped / "encoder" / ".zh.0a1b2c3d.tmp",
        kept / ".zh.0a1b2c3d.tmp",
        stopped / "states" / ".01-00000003.0a1b2c3d.tmp",
    ]
    mine = [stopped / ".notes.markdown", stopped / ".report.html.swp", stopped / ".git"]
    for path in (*left, *mine):
        path.mkdir()
    resume(stopped)
    assert [path.name for path in left if path.exists()] == []
    assert all(path.exists() for path in mine)
