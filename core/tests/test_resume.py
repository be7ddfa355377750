from __future__ import annotations

import json
import os
import platform
import shutil
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import pytest
from damage import flip, truncate
from sentbed import (
    DataError,
    PluginError,
    RunError,
    hookimpl,
    load_recipe,
    run,
)
from sentbed._files import locked, read_json, write_sums
from sentbed._registry.registry import load_plugins
from sentbed._run import training_states as states
from sentbed._run.best_weights import prune_weights
from sentbed._run.context import Kept, RunContext
from sentbed._run.resume import differences
from sentbed._run.resume import resume as resume_run
from sentbed._run.run_directory import LOCK, new_directory
from sentbed._run.runner import execute
from sentbed.errors import LONGEST_MESSAGE
from toy_fixtures import exactly
from toy_plugin import RECIPE, TOWERS, Centre, Characters, SgdTrainer, quicken

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
    """`sentbed.resume` with the plugins of the test."""
    return partial(resume_run, plugins=plugins)


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
    """Ctrl-C at the `at`-th step that it sees, or at the step of that number."""

    error = KeyboardInterrupt
    required = True

    def __init__(self, at, number=False):
        self.at, self.number, self.steps = at, number, 0

    @hookimpl(trylast=True)
    def step_finished(self, step):
        self.steps += 1
        if self.at == (step if self.number else self.steps):
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
    lines = [
        json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()
    ]
    kept = []
    for whole_line in lines:
        line = {
            k: value
            for k, value in whole_line.items()
            if k not in ("time", "path", "report")
        }
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
    def step_finished(self, step):
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
            (Path, "chmod"),
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
    recipe = recipe_of(RUN, "checkpoint.every=1", "stage.pairs.cache_frozen=true")
    resumed = 0
    for at in range(3, 10_000, 13):
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


def test_a_cache_that_a_killed_run_left_is_used_and_gives_the_same_result(
    recipe_of, plugins, whole, tmp_path, resume
):
    recipe = recipe_of(RUN, "checkpoint.every=2", "stage.pairs.cache_frozen=true")
    out = stop_at(plugins, recipe, tmp_path / "out", 5)
    (vectors,) = (out / "vectors").iterdir()
    # The first epoch was complete; one row of it is spoilt.
    records = np.frombuffer(vectors.read_bytes(), np.uint8).reshape(-1, 24).copy()
    assert records.any(axis=1).all()
    records[0, 12] ^= 1
    vectors.write_bytes(records.tobytes())
    resume(out)
    assert outcome(out) == whole


# --- states while running ----------------------------------------------------------------------------------


@pytest.mark.sweep(1)
@pytest.mark.parametrize("keep", [1, 2, 3])
def test_only_so_many_states_are_kept_while_a_run_goes_on(
    keep, plugins, tmp_path, run_recipe
):
    seen = []

    class Look:
        @hookimpl
        def step_finished(self, run):
            seen.append(
                sorted(path.name for path in (run.directory / "states").iterdir())
            )

    plugins.manager.register(Look())
    run_recipe(RUN, "checkpoint.every=2", f"checkpoint.keep={keep}")
    written = [
        "00-00000000",
        "00-00000002",
        "00-00000004",
        "01-00000000",
        "01-00000002",
    ]
    # A state is written after the hook of its step; that of a stage's last step is the one that follows it.
    so_far = [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert seen == [written[:count][-keep:] for count in so_far]
    assert not (tmp_path / "out" / "states").exists()


@pytest.mark.parametrize(("minutes", "count"), [(0, 8), (10, 0)])
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


def test_a_run_without_stages_has_no_states_and_starts_from_the_beginning(
    recipe_of, plugins, recorder, tmp_path, resume
):
    text = (
        TOWERS[: TOWERS.index("[[stage]]")]
        + '[[evaluate]]\nuse = "gap"\nencoder = "en"\n'
    )
    out = tmp_path / "out"
    assert stopping(plugins, Stop(2), lambda: run(recipe_of(text), out, plugins))
    assert not (out / "states").exists()
    assert [score.encoder for score in resume(out).scores] == ["en"]


def test_trackers_are_given_what_they_had_and_the_history_goes_on(
    recorder, stopped_at, resume
):
    out = stopped_at(3, "checkpoint.every=2")
    before = recorder.names.index("step_finished")
    second_step = next(
        i
        for i, name in enumerate(recorder.names)
        if recorder.names[before : i + 1].count("step_finished") == 2
    )
    recorder.events.clear()
    resume(out)
    (resumed,) = [details for name, details in recorder.events if name == "run_resumed"]
    assert resumed["state"]["events"] > second_step
    assert recorder.names[:2] == ["run_resumed", "stage_started"]
    assert [
        details["step"] for name, details in recorder.events if name == "step_finished"
    ][:2] == [3, 4]
    manifest = read_json(out / "manifest.json")
    assert manifest["resumed"] == [{"stage": 0, "step": 2}]
    assert manifest["status"] == "finished"


@pytest.mark.sweep(8)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("trackers", "history", "stages", 0, "learning_rates"), None),
        (("trackers", "history", "stages", 0, "losses"), []),
        (("trackers", "history", "stages", 0, "steps", 0), "1"),
        (("facts", "code"), {"numpy": 0}),
        (("facts", "code"), []),
        (("facts", "data"), 1),
        (("facts", "evaluation_data"), []),
        (("facts", "trained_tokens"), "1"),
        (("trackers", "history", "stages"), None),
        (("trackers", "history", "scores"), [{"task": "a"}]),
        (("trackers", "history", "started"), "yesterday"),
        (("trackers", "history", "seconds"), None),
    ],
)
def test_a_state_that_is_another_than_was_written_is_refused_before_a_step_is_taken(
    path, value, stopped, recorder, resume
):
    place = newest(stopped)[0]
    content = read_json(place / "state.json")
    table = content
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    (place / "state.json").write_text(json.dumps(content))
    write_sums(place)
    recorder.events.clear()

    with pytest.raises(RunError, match="cannot be restored"):
        resume(stopped)

    assert "step_finished" not in recorder.names


def test_a_manifest_whose_resumptions_are_no_list_is_refused(stopped, resume):
    manifest = read_json(stopped / "manifest.json")
    (stopped / "manifest.json").write_text(json.dumps({**manifest, "resumed": "yes"}))
    with pytest.raises(
        RunError,
        match=r"manifest.json` is damaged: `resumed` is 'yes', expected a list",
    ):
        resume(stopped)


# --- damage ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped_once(toy_points, tmp_path_factory):
    """What `stopped` is a copy of."""
    directory = tmp_path_factory.mktemp("stopped")
    (directory / "recipe.toml").write_text(RUN)
    plugins = load_plugins(point for point in toy_points if point.name != "console")
    recipe = load_recipe(directory / "recipe.toml", ["checkpoint.every=1"], plugins)
    with pytest.MonkeyPatch.context() as patch:
        quicken(patch)
        return stop_at(plugins, recipe, directory / "out", 10)


@pytest.fixture
def stopped(stopped_once, put, tmp_path):
    """A run that was stopped after step 4 of the second stage's 4 and has states of steps 2 and 3."""
    put("recipe.toml", RUN)
    return Path(shutil.copytree(stopped_once, tmp_path / "out"))


def newest(directory):
    return [state.path for state in states.saved_states(directory)]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("change", [flip, truncate, Path.unlink])
@pytest.mark.parametrize(
    "name",
    ["checksums.json", "state.json", "trainer/trainer.json", "trainer/arrays.npz"],
)
def test_a_damaged_state_is_left_for_the_one_before_with_a_warning_that_names_it(
    name, change, stopped, whole, recorder, resume
):
    first, second = newest(stopped)
    assert (first.name, second.name) == ("01-00000003", "01-00000002")
    change(first / name)
    recorder.events.clear()
    resume(stopped)
    (warned,) = [
        details["message"] for event, details in recorder.events if event == "warned"
    ]
    assert warned.startswith(f"the checkpoint `{first}` is damaged: ")
    assert warned.endswith("; going on from an older state")
    assert warnings_of(stopped) == [warned]
    steps = [
        details["step"]
        for event, details in recorder.events
        if event == "step_finished"
    ]
    assert steps == [3, 4]
    assert outcome(stopped) == whole


def test_a_state_that_is_no_table_needs_no_weights(stopped, whole, resume):
    (newest(stopped)[0] / "state.json").write_text("[]")
    prune_weights(stopped, "tune", Kept())
    resume(stopped)
    assert outcome(stopped) == whole


def test_a_damaged_state_is_gone_as_soon_as_there_is_another(stopped, plugins, resume):
    flip(newest(stopped)[0] / "state.json")
    recipe = load_recipe(stopped / "resolved.toml", ["checkpoint.keep=1"], plugins)
    assert stopping(
        plugins,
        StopAtStep(4, True),
        lambda: resume(stopped, recipe, allow_changes=True),
    )
    (left,) = newest(stopped)
    assert states.read(states.saved_states(stopped)[0]).path == left


def test_where_all_states_are_damaged_each_is_named_and_nothing_is_lost(
    stopped, resume
):
    for path in newest(stopped):
        flip(path / "trainer" / "arrays.npz")
    before = contents(stopped)
    with pytest.raises(RunError) as caught:
        resume(stopped)
    listed = "; ".join(
        f"the checkpoint `{path}` is damaged: `trainer/arrays.npz` is not what was written"
        for path in newest(stopped)
    )
    assert str(caught.value) == (
        f"{listed}; no other is left, start the run again with another `--out`"
    )
    assert contents(stopped) == before


def kept_of(directory, stage):
    (kept,) = (directory / "checkpoints" / stage).glob("kept-*/zh")
    return kept


def without(outcome, stage):
    """An outcome, without the weights that a stage has kept."""
    files = {
        path: content
        for path, content in outcome["files"].items()
        if stage not in path.parts
    }
    assert 5 < len(files) < len(outcome["files"])
    return {**outcome, "files": files}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("change", [flip, truncate, Path.unlink])
def test_damaged_weights_of_a_finished_stage_do_not_matter_to_a_state_within_the_next_one(
    change, stopped, whole, resume
):
    change(kept_of(stopped, "pairs") / "backbone" / "embedding.npy")
    resume(stopped)
    assert warnings_of(stopped) == []
    assert without(outcome(stopped), "pairs") == without(whole, "pairs")


def test_damaged_weights_of_a_finished_stage_are_damage_of_a_state_that_begins_with_them(
    stopped_at, resume
):
    # Stopped at the first step of the second stage: there are the states after the first stage and within it.
    out = stopped_at(7, "checkpoint.every=1", "checkpoint.keep=1")
    assert [path.name for path in newest(out)] == ["01-00000000"]
    flip(kept_of(out, "pairs") / "backbone" / "embedding.npy")
    place = kept_of(out, "pairs").relative_to(out).as_posix()
    with pytest.raises(
        RunError, match=f"is damaged: `{place}` is not what was written"
    ):
        resume(out)


def test_damaged_best_weights_are_damage_of_the_states_that_speak_of_them(
    recipe_of, plugins, whole, tmp_path, resume
):
    # Falling distance: a near target is best late, at step 2; the state of step 1 knows nothing of it.
    validate = (
        'stage.tune.validate={ every = 2, with = { use = "gap", development = true } }'
    )
    recipe = recipe_of(RUN, "checkpoint.every=1", validate)
    expected = run(recipe, tmp_path / "whole", plugins).directory
    out = stop_at(plugins, recipe, tmp_path / "out", 9)
    assert [path.name for path in newest(out)] == ["01-00000002", "01-00000001"]
    # The state of step 1 refers to those that the stage began with.
    *_, kept = sorted((out / "checkpoints" / "tune").glob("kept-*"))
    shutil.rmtree(kept / "zh")
    resume(out)
    (warned,) = warnings_of(out)
    assert (
        f"01-00000002` is damaged: `checkpoints/tune/{kept.name}/zh` is not what was written"
        in warned
    )
    assert outcome(out) == outcome(expected)


def test_weights_that_are_damaged_while_a_run_goes_on_change_nothing_of_it(
    plugins, whole, stopped_at, resume
):
    class Spoil:
        @hookimpl
        def stage_started(self, run, stage):
            if stage == "tune":
                flip(kept_of(run.directory, "pairs") / "backbone" / "embedding.npy")

    plugins.manager.register(spoil := Spoil())
    out = stopped_at(9, "checkpoint.every=1")
    plugins.manager.unregister(spoil)
    resume(out)
    assert without(outcome(out), "pairs") == without(whole, "pairs")


# --- interrupted while it was tidied ------------------------------------------------------------------------


def names(directory):
    return {
        path.relative_to(directory)
        for path in directory.rglob("*")
        if not path.name.startswith(".")
    }


@pytest.mark.sweep(1)
@pytest.mark.parametrize("stages", [None, 1])
def test_a_finished_run_that_was_killed_while_it_was_tidied_is_tidied_again(
    stages, recipe_of, plugins, tmp_path, monkeypatch, resume
):
    recipe = recipe_of(
        RUN, "checkpoint.every=1", "checkpoint.keep=3", "stage.pairs.cache_frozen=true"
    )
    execute(
        RunContext("r", new_directory(tmp_path / "whole"), recipe, stages=stages),
        plugins,
    )
    expected = names(tmp_path / "whole")
    remove, left, finished = shutil.rmtree, 0, False

    def killed(path, **options):
        nonlocal left
        left -= finished
        if left == 0:
            for inside in sorted(Path(path).rglob("*"))[:1]:  # a part of it is gone
                inside.unlink() if inside.is_file() else remove(inside)
            raise KeyboardInterrupt
        remove(path, **options)

    class Finished:
        @hookimpl
        def run_finished(self):
            nonlocal finished
            finished = True

    plugins.manager.register(Finished())
    for count in range(1, 9):
        out = new_directory(tmp_path / f"killed-{count}")
        left, finished = count, False
        context = RunContext("r", out, recipe, stages=stages)
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", killed)
            try:
                execute(context, plugins)
            except KeyboardInterrupt:
                assert names(out) != expected
            else:
                break
        with pytest.raises(RunError, match="has finished; there is nothing to resume"):
            resume(out)
        assert names(out) == expected
    assert 3 < count < 8


@pytest.mark.parametrize("status", ["interrupted", "finished"])
def test_weights_of_a_directory_that_a_state_names_as_a_stage_stay(
    status, stopped, tmp_path, resume
):
    victim = tmp_path / "victim" / "checkpoints" / "t" / "kept-1"
    victim.mkdir(parents=True)
    place = newest(stopped)[0]
    state = read_json(place / "state.json")
    state["kept"]["../../victim/checkpoints/t"] = state["kept"]["pairs"]
    (place / "state.json").write_text(json.dumps(state))
    write_sums(place)
    manifest = {**read_json(stopped / "manifest.json"), "status": status}
    (stopped / "manifest.json").write_text(json.dumps(manifest))
    with suppress(RunError):  # where there is nothing to resume
        resume(stopped)
    assert victim.is_dir()


# --- nothing to resume -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "none"])
def test_a_directory_that_holds_no_run_cannot_be_resumed(name, tmp_path, resume):
    place = tmp_path / name
    message = f"`{place}` is not a run directory (no `manifest.json` in it that can be read); name one"
    with pytest.raises(RunError, match=exactly(message)):
        resume(place)


@pytest.mark.parametrize("manifest", ["", "{", "[]", "3", "{}", "\xff"])
def test_a_run_whose_manifest_is_damaged_cannot_be_resumed(manifest, tmp_path, resume):
    file = tmp_path / "manifest.json"
    file.write_bytes(manifest.encode("latin-1"))
    message = f"`{file}` is not what a run writes; move it away"
    with pytest.raises(RunError, match=exactly(message)):
        resume(tmp_path)


def test_a_run_that_has_finished_cannot_be_resumed(run_recipe, resume):
    out = run_recipe(RUN).directory
    before = contents(out)
    with pytest.raises(
        RunError,
        match=exactly(f"the run in `{out}` has finished; there is nothing to resume"),
    ):
        resume(out)

    assert contents(out) == before


def test_a_run_killed_before_its_first_state_starts_from_the_beginning(
    recipe_of, plugins, whole, recorder, tmp_path, resume
):
    out = tmp_path / "out"
    assert stopping(plugins, Stop(3), lambda: run(recipe_of(RUN), out, plugins))
    assert newest(out) == []
    recorder.events.clear()
    resume(out)
    assert recorder.names[:2] == ["run_resumed", "evaluation_started"]
    assert outcome(out) == whole


def test_a_run_that_starts_from_the_beginning_has_no_digits_of_other_versions(
    recipe_of, plugins, tmp_path, monkeypatch, resume
):
    out = tmp_path / "out"
    assert stopping(plugins, Stop(3), lambda: run(recipe_of(RUN), out, plugins))
    monkeypatch.setattr("platform.python_version", lambda: "9.9.9")
    resume(out)
    assert warnings_of(out) == []


# --- what has changed --------------------------------------------------------------------------------------


def test_differences_are_every_value_by_its_path():
    before = {
        "run": {"seed": 1, "name": "a"},
        "stage": [{"x": 1, "tasks": ["a"]}, {"y": True}],
        "old": 2,
    }
    after = {
        "run": {"seed": 2, "name": "a"},
        "stage": [{"x": 1.5, "tasks": ["a", "b"]}, {"y": True}],
        "new": {"z": "t"},
    }
    assert sorted(differences(before, after)) == [
        "new: nothing -> {'z': 't'}",
        "old: 2 -> nothing",
        "run.seed: 1 -> 2",
        "stage.0.tasks: ['a'] -> ['a', 'b']",
        "stage.0.x: 1 -> 1.5",
    ]
    assert list(differences(before, before)) == []


def test_values_of_megabytes_are_cut_in_differences():
    long = "x" * 1_000_000
    (difference,) = differences({"a": {long: long}}, {"a": {long: 1}})
    assert len(difference) < 3 * LONGEST_MESSAGE
    assert difference.endswith("x' -> 1")


def test_the_lines_of_a_warning_are_cut(recipe_of, plugins, tmp_path):
    class Listener:
        @hookimpl
        def warned(self, message):
            lines.extend(message.split("\n"))

    lines = []
    plugins.manager.register(Listener())
    context = RunContext("r", tmp_path, recipe_of())
    context.hooks = plugins.manager.hook
    context.warn("first\n" + "x" * 1_000_000)
    assert lines[0] == "first"
    assert len(lines[1]) < LONGEST_MESSAGE + 10


def test_a_stage_is_called_by_its_name_where_both_have_it():
    before = {"stage": [{"name": "a", "x": 1}, {"name": "b", "x": 1}]}
    after = {"stage": [{"name": "a", "x": 2}, {"name": "c", "x": 2}]}
    assert list(differences(before, after)) == [
        "stage.a.x: 1 -> 2",
        "stage.1.name: 'b' -> 'c'",
        "stage.1.x: 1 -> 2",
    ]


CHANGES = (
    "run.seed=8",
    "stage.pairs.optimizer.lr=0.25",
    "stage.tune.steps=5",
    "stage.tune.epochs=",
    "encoders.zh.head.normalize=true",
)
LISTED = (
    "  run.seed: 7 -> 8\n"
    "  encoders.zh.head.normalize: False -> True\n"
    "  stage.pairs.optimizer.lr: 0.5 -> 0.25\n"
    "  stage.tune.epochs: 2 -> nothing\n"
    "  stage.tune.steps: nothing -> 5\n"
)


def test_a_changed_recipe_is_refused_with_every_change_and_nothing_is_touched(
    stopped, recipe_of, resume
):
    before = contents(stopped)
    with pytest.raises(
        RunError,
        match=exactly(
            f"the recipe is not the one that the run in `{stopped}` was started with:\n{LISTED}"
            "go on without these changes, or allow them (`--allow-changes`)"
        ),
    ):
        resume(stopped, recipe_of(RUN, "checkpoint.every=1", *CHANGES))

    assert contents(stopped) == before


def test_the_same_recipe_from_its_file_is_no_change(stopped, recipe_of, whole, resume):
    resume(stopped, recipe_of(RUN, "checkpoint.every=1"))
    assert outcome(stopped) == whole
    assert warnings_of(stopped) == []


def test_a_changed_recipe_that_is_allowed_is_the_one_that_runs_and_a_warning(
    stopped, recipe_of, plugins, resume
):
    resume(stopped, recipe_of(RUN, "checkpoint.every=1", *CHANGES), allow_changes=True)
    assert warnings_of(stopped) == [
        f"the recipe has changed since the run was started:\n{LISTED}".rstrip()
    ]
    assert [
        line["step"] for line in events(stopped) if line["event"] == "step_finished"
    ][-2:] == [4, 5]
    assert load_recipe(stopped / "resolved.toml", plugins=plugins).run.seed == 8


def test_a_change_holds_from_the_first_state_that_was_written_with_it(
    stopped, recipe_of, plugins, resume
):
    flip(newest(stopped)[0] / "state.json")
    changed = recipe_of(RUN, "checkpoint.every=1", "run.seed=8")

    def go():
        resume(stopped, changed, allow_changes=True)

    # Stopped before such a state: the run is as if it had never been resumed.
    assert stopping(plugins, StopAtStep(3, True), go)
    first, second = warnings_of(stopped)
    assert "is damaged" in first
    assert second.endswith("run.seed: 7 -> 8")
    assert stopping(plugins, StopAtStep(3, True), lambda: resume(stopped))
    assert warnings_of(stopped) == [first]
    with pytest.raises(RunError, match=r"run\.seed: 7 -> 8"):
        resume(stopped, changed)
    # Stopped behind it: the change is part of the run, and so is the warning.
    assert stopping(plugins, StopAtStep(4, True), go)
    assert [state.step for state in states.saved_states(stopped)] == [3, 2]
    resume(stopped)
    assert warnings_of(stopped) == [first, second]
    assert load_recipe(stopped / "resolved.toml", plugins=plugins).run.seed == 8
    assert len(read_json(stopped / "manifest.json")["resumed"]) == 4


def test_a_recipe_that_is_not_that_of_the_state_is_a_change_wherever_it_comes_from(
    stopped, resume
):
    """As a process leaves it that is killed while it writes its first state with another recipe."""
    resolved = stopped / "resolved.toml"
    resolved.write_text(resolved.read_text().replace("seed = 7", "seed = 8"))
    with pytest.raises(RunError, match=r"run\.seed: 7 -> 8"):
        resume(stopped)
    resume(stopped, allow_changes=True)
    assert warnings_of(stopped)[0].endswith("run.seed: 7 -> 8")


def test_a_change_of_what_comes_after_the_last_stage_is_in_the_recipe_of_the_run(
    recipe_of, plugins, tmp_path, resume
):
    class AtTheEnd:
        error = KeyboardInterrupt

        @hookimpl
        def evaluation_started(self, encoder):
            if encoder == "zh+en":
                raise KeyboardInterrupt

    out = tmp_path / "out"
    assert stopping(plugins, AtTheEnd(), lambda: run(recipe_of(RUN), out, plugins))
    resume(out, recipe_of(RUN, "evaluate.0.left=xyz"), allow_changes=True)
    assert (
        load_recipe(out / "resolved.toml", plugins=plugins).evaluate[0].evaluator.left
        == "xyz"
    )


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    "change",
    [
        "stage.pairs.name=other",
        'stage.tune.train="en"',
        'stage.pairs={ name = "tune" }',
        "stage.tune.name=x",
    ],
)
def test_stages_that_a_run_has_begun_cannot_change_names_or_towers(
    change, stopped, recipe_of, resume
):
    if change.startswith("stage.pairs={"):
        recipe = recipe_of(RUN, "checkpoint.every=1")
        recipe = attrs.evolve(recipe, stage=recipe.stage[1:])
    else:
        recipe = recipe_of(RUN, "checkpoint.every=1", change)
    with pytest.raises(
        RunError,
        match=exactly(
            f"the stages that the run in `{stopped}` has begun have other names, or train other encoders; "
            "undo that, or start a new run"
        ),
    ):
        resume(stopped, recipe, allow_changes=True)


def test_the_only_encoder_cannot_be_renamed_in_a_stage_that_a_run_has_begun(
    recipe_of, plugins, tmp_path, resume
):
    out = stop_at(plugins, recipe_of(RECIPE, "checkpoint.every=1"), tmp_path / "out", 3)
    renamed = recipe_of(
        RECIPE.replace("[encoder]", "[encoders.student]"), "checkpoint.every=1"
    )
    with pytest.raises(
        RunError, match="has begun have other names, or train other encoders"
    ):
        resume(out, renamed, allow_changes=True)


@pytest.mark.parametrize("allowed", [False, True])
def test_an_encoder_cannot_become_another_one_within_a_run(
    allowed, stopped, recipe_of, resume
):
    changed = recipe_of(RUN, "checkpoint.every=1", "encoders.zh.backbone.init_seed=9")
    expected = (
        "an encoder cannot become another one"
        if allowed
        else "is not the one that the run"
    )
    with pytest.raises(RunError, match=expected) as caught:
        resume(stopped, changed, allow_changes=allowed)
    assert "encoders.zh.backbone.init_seed" in str(caught.value)


def test_a_stage_cannot_have_fewer_steps_than_are_done(stopped, recipe_of, resume):
    changed = recipe_of(RUN, "checkpoint.every=1", "stage.1.epochs=", "stage.1.steps=1")
    with pytest.raises(
        RunError, match="the stage `tune` has 1 steps, and 3 are done; give it more"
    ):
        resume(stopped, changed, allow_changes=True)


def test_a_stage_that_a_run_has_not_begun_may_change(recipe_of, stopped_at, resume):
    out = stopped_at(3, "checkpoint.every=1")
    changed = recipe_of(
        RUN, "checkpoint.every=1", "stage.tune.name=other", 'stage.1.train="en"'
    )
    resume(out, changed, allow_changes=True)
    names = [line["stage"] for line in events(out) if line["event"] == "stage_finished"]
    assert names == ["pairs", "other"]


def test_another_batch_size_in_the_middle_of_a_stage_is_refused_even_where_changes_are_allowed(
    stopped, recipe_of, resume
):
    changed = recipe_of(RUN, "checkpoint.every=1", "stage.tune.batch_size=2")
    with pytest.raises(
        DataError,
        match="resume with the data and the batch size of the run that was saved",
    ):
        resume(stopped, changed, allow_changes=True)


PUT_THEM_BACK = "put them back, or allow changes to go on with them"
TABLE = 'stage.tune.data={ use = "table", path = "t.tsv" }'


def rows(*texts):
    return "anchor\tpositive\n" + "".join(f"{text}\t{text[::-1]}x\n" for text in texts)


def refused_unless_allowed(directory, resume, change, remedy):
    """Resume a run that was changed: refused, then with a warning. Returns what else it warns of."""
    with pytest.raises(RunError, match=exactly(f"{change}; {remedy}")):
        resume(directory)

    resume(directory, allow_changes=True)
    warning, *others = warnings_of(directory)
    assert warning == change
    return others


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        (("ab", "cd", "ef", "gh", "ij", "kl", "mN"), 7),
        (("ab", "cd", "ef", "gh", "ij", "kl"), 6),
    ],
)
def test_changed_data_is_refused_and_a_warning_where_it_is_allowed(
    texts, count, put, stopped_at, resume
):
    put("t.tsv", rows("ab", "cd", "ef", "gh", "ij", "kl", "mn"))
    out = stopped_at(8, "checkpoint.every=1", TABLE)
    put("t.tsv", rows(*texts))
    change = f"the data of stage `tune` is not what it was when the run started (7 rows then, {count} now)"
    remedy = "put it back, or allow changes to go on with other texts in its rows"
    assert refused_unless_allowed(out, resume, change, remedy) == []


READER = """
import attrs
import sentbed
from pathlib import Path
from sentbed import FilePath
from sentbed.protocols import Evaluation, Evaluator, EvaluatorTraits, Prepared, Score, Texts


@attrs.frozen
class Lines(Evaluator):
    \"\"\"Mean length of the vectors of a file's lines.\"\"\"

    name = "line-norm"
    traits = EvaluatorTraits(development=True)

    path: FilePath

    def prepare(self):
        return Prepared({"lines": Texts(Path(self.path).read_text().splitlines())}, self.score)

    def score(self, vectors):
        value = FACTOR * float(abs(vectors["lines"]).mean())
        return Evaluation((Score("lines", "norm", value, {"id": "norm"}),), value)


FACTOR = 1.0


@sentbed.hookimpl
def evaluators():
    return [Lines]
"""
VALIDATED = (
    'stage.pairs.validate={ with = { use = "line-norm", path = "lines.txt" }, every = 2 }',
    'evaluate=[{ use = "line-norm", path = "lines.txt", encoder = "zh" }]',
)


@pytest.fixture
def reading(distribute, toy_points, put):
    """The plugins, with one whose evaluator reads a file."""
    put("lines.txt", "one\ntwo\n")
    points = distribute("line-norms", {"line_norms": READER})
    return load_plugins(
        [*(point for point in toy_points if point.name != "console"), *points]
    )


def test_changed_data_of_validations_and_evaluations_is_refused_and_a_warning_where_it_is_allowed(
    reading, put, tmp_path, resume
):
    recipe = load_recipe(
        put("recipe.toml", RUN), ["checkpoint.every=1", *VALIDATED], reading
    )
    out = stop_at(reading, recipe, tmp_path / "out", 5)
    put("lines.txt", "one\ntwo\nthree\n")
    message = "the data of evaluations is not what it was when the run started: `line-norm lines.txt`"
    with pytest.raises(
        RunError,
        match=exactly(
            f"{message}; put it back, or allow changes to go on with it (`--allow-changes`)"
        ),
    ):
        resume(out, plugins=reading)

    put("lines.txt", "one\ntwo\n")
    os.utime(tmp_path / "lines.txt", (1, 1))
    assert stopping(reading, StopAtStep(1), lambda: resume(out, plugins=reading))
    put("lines.txt", "one\ntwo\nthree\n")
    resume(out, plugins=reading, allow_changes=True)
    assert warnings_of(out)[0] == message


def test_edited_code_of_a_plugin_is_refused_and_a_warning_where_it_is_allowed(
    reading, put, tmp_path, resume
):
    recipe = load_recipe(
        put("recipe.toml", RUN), ["checkpoint.every=1", *VALIDATED], reading
    )
    out = stop_at(reading, recipe, tmp_path / "out", 5)
    assert "line-norms" in read_json(out / "manifest.json")["code"]
    source = tmp_path / "site" / "line_norms.py"
    source.write_text(READER.replace("FACTOR = 1.0", "FACTOR = 2.0"))
    message = "code is not what it was when the run was started: line-norms: other code"
    remedy = "put it back, start a new run, or allow changes to go on with it (`--allow-changes`)"
    refused_unless_allowed(out, partial(resume, plugins=reading), message, remedy)


def test_data_of_a_stage_that_has_not_begun_may_change(put, stopped_at, resume):
    put("t.tsv", rows("ab", "cd", "ef"))
    out = stopped_at(3, "checkpoint.every=1", TABLE)
    put("t.tsv", rows("ab", "cd", "eF"))
    resume(out)
    assert [
        warning for warning in warnings_of(out) if "batch_size" not in warning
    ] == []


def test_other_weights_of_the_models_are_refused_and_a_warning_where_they_are_allowed(
    stopped, monkeypatch, resume
):
    build = Characters.build

    def other(self, context):
        return attrs.evolve(build(self, context), origin={"init": "another file"})

    monkeypatch.setattr(Characters, "build", other)
    change = "the models' files are not those that the run was started with"
    assert refused_unless_allowed(stopped, resume, change, PUT_THEM_BACK) == []


def test_another_tokenizer_is_refused_and_a_warning_where_it_is_allowed(
    stopped, monkeypatch, resume
):
    build = Characters.build

    def other(self, context):
        backbone = build(self, context)
        backbone.tokenizer.fingerprint = "other texts"
        return backbone

    monkeypatch.setattr(Characters, "build", other)
    change = (
        "the tokenizer of `en` is not the one that the run was started with: its file has changed, or "
        "texts that it is trained on, which are those of all stages"
    )
    others = refused_unless_allowed(stopped, resume, change, PUT_THEM_BACK)
    assert others == [change.replace("`en`", "`zh`")]


def test_another_python_is_a_warning_and_another_version_of_a_plugin(
    stopped, plugins, whole, monkeypatch, resume
):
    python = platform.python_version()
    monkeypatch.setattr("platform.python_version", lambda: "9.9.9")
    newer = attrs.evolve(
        plugins, plugins=tuple(attrs.evolve(p, version="9") for p in plugins.plugins)
    )
    # A second start has the same to say: the states are still those of the first versions.
    assert stopping(
        plugins, StopAtStep(4, True), lambda: resume(stopped, plugins=newer)
    )
    resume(stopped, plugins=newer)
    libraries, others = sorted(warnings_of(stopped))
    assert libraries == (
        f"the libraries are not those that the run was started with (Python: '{python}' -> '9.9.9'); digits "
        "may differ"
    )
    assert others.startswith(
        "the plugins are not those that the run was started with ("
    )
    assert others.endswith(" -> '9'); digits may differ")
    assert outcome(stopped) == whole


# --- refused without harm ----------------------------------------------------------------------------------


def test_a_run_that_another_process_works_on_is_left_alone(stopped, resume):
    before = contents(stopped)
    with (
        locked(stopped / LOCK),
        pytest.raises(
            RunError,
            match=exactly(
                f"another process is at work on the run in `{stopped}`; let it end first"
            ),
        ),
    ):
        resume(stopped)

    assert contents(stopped) == before
    resume(stopped)


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

    tracker = Look()
    plugins.manager.register(tracker)
    out = run_recipe(RUN).directory
    assert len(refused) == 10
    with locked(out / LOCK) as free:
        assert free


@pytest.mark.parametrize("inside", [False, True])
def test_a_resume_that_is_refused_keeps_the_encoder_that_was_saved(
    inside, put, stopped_at, resume
):
    put("t.tsv", rows("ab", "cd", "ef", "gh", "ij", "kl", "mn"))
    every = 1 if inside else 100
    out = stopped_at(8, f"checkpoint.every={every}", TABLE)
    saved = contents(out / "encoder")
    put("t.tsv", rows("other"))
    with pytest.raises(RunError):
        resume(out)
    assert contents(out / "encoder") == saved


# --- what is left ------------------------------------------------------------------------------------------


def test_what_killed_processes_left_is_removed_at_the_end_and_nothing_else(
    stopped, resume
):
    (kept,) = (stopped / "checkpoints" / "pairs").glob("kept-*")
    left = [
        stopped / ".encoder.k1ll3d__",
        stopped / ".encoder.k1ll3d__.old",
        stopped / ".manifest.json.abcdefgh",
        stopped / "encoder" / ".zh.abcdefgh",
        kept / ".zh.abcdefgh",
        stopped / "states" / ".01-00000003.abcdefgh",
    ]
    mine = [stopped / ".notes.markdown", stopped / ".report.html.swp", stopped / ".git"]
    for path in (*left, *mine):
        path.mkdir()
    resume(stopped)
    assert [path.name for path in left if path.exists()] == []
    assert all(path.exists() for path in mine)
