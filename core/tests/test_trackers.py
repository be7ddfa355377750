from __future__ import annotations

import json
from pathlib import Path

import pytest
from sentbed import PluginError, RunError, hookimpl, resume, run
from sentbed._registry.registry import LIFECYCLE_HOOKS
from toy_plugin import RECIPE, Notes, Recorder

NOTES = (
    RECIPE.replace(
        "[[evaluate]]",
        '\n[stage.validate]\nevery = 2\nwith = { use = "gap", development = true }\n\n'
        '[[stage.watch]]\nevery = 2\nwith = { use = "gap" }\n\n[[evaluate]]',
    )
    + '\n[[tracker]]\nuse = "notes"\n'
)
RESUMED = ("run_resumed", "run_failed")
"""Hooks that a run which finishes does not call."""

pytestmark = pytest.mark.usefixtures("quick")


def failing(hook, error=None, result=None, **attributes):
    """Return a tracker that remembers its calls; at a hook it raises an error or returns a result."""

    def at(self):
        self.calls.append(hook)
        if error is not None:
            raise error
        return result

    def step_finished(self):
        self.calls.append("step_finished")

    methods = {"step_finished": hookimpl(step_finished), hook: hookimpl(at)}
    return type("Failing", (), {"calls": [], **methods, **attributes})()


def warnings_of(directory):
    report = json.loads((directory / "report.json").read_text())
    return [*report["warnings"]]


def numbers(result):
    return [(score.encoder, score.value) for score in result.scores]


def lines(directory):
    """Return the log without times and warnings."""
    events = [
        json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()
    ]
    return [
        {
            key: value
            for key, value in event.items()
            if key not in ("time", "report", "path")
        }
        for event in events
        if event["event"] != "warned"
    ]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "hook",
    [hook for hook in LIFECYCLE_HOOKS if hook not in RESUMED and hook != "warned"],
)
def test_a_hook_that_fails_costs_its_tracker_alone(
    hook, recipe_of, plugins, recorder, tmp_path, monkeypatch, capsys
):
    recipe = recipe_of(NOTES)
    before = run(recipe, tmp_path / "before", plugins)
    events, registered = list(recorder.events), plugins.manager.list_name_plugin()
    recorder.events.clear()
    tracker = failing(hook, ValueError("broken"))
    monkeypatch.setattr(Notes, "build", lambda _: tracker)
    capsys.readouterr()
    after = run(recipe, tmp_path / "after", plugins)
    assert numbers(after) == numbers(before)
    assert lines(tmp_path / "after") == lines(tmp_path / "before")
    assert [name for name in recorder.names if name != "warned"] == [
        name for name, _ in events
    ]
    # It is called no more, and the run after this one has none of it.
    assert tracker.calls.count(hook) == 1
    assert tracker.calls[-1] == hook
    assert plugins.manager.list_name_plugin() == registered
    warnings = [
        line
        for line in capsys.readouterr().err.splitlines()
        if line.startswith("warning: ")
    ]
    assert len(warnings) == 1
    assert warnings[0].startswith(
        f"warning: the tracker `notes` of `toy_plugin` failed in `{hook}`: ValueError: broken @ {__file__}:"
    )
    assert warnings[0].endswith("; the run goes on without it")
    if hook not in ("write_report", "run_finished", "report_sections"):
        assert [
            warning for warning in warnings_of(tmp_path / "after") if "notes" in warning
        ] == [warnings[0].removeprefix("warning: ")]


def test_a_tracker_that_is_required_ends_the_run_with_its_name(
    recorder, out, monkeypatch, run_recipe
):
    monkeypatch.setattr(Recorder, "required", True, raising=False)
    monkeypatch.setattr(recorder, "fail_on", "scores_ready")
    with pytest.raises(PluginError) as caught:
        run_recipe()
    message = "the plugin `toy:recorder` failed in `scores_ready`: ValueError: the recorder fails on "
    assert str(caught.value).startswith(f"{message}scores_ready @ ")
    assert str(caught.value).endswith("; the run needs it")
    report = json.loads((out / "report.json").read_text())
    assert (report["status"], report["error"]) == ("failed", str(caught.value))
    assert recorder.names[-2:] == ["scores_ready", "run_failed"]


def test_a_tracker_that_cannot_work_refuses_the_run_at_its_start_and_costs_no_run_later(
    plugins, tmp_path, run_recipe
):
    tracker = failing("run_started", RunError("no service; start it"))
    plugins.manager.register(tracker)
    with pytest.raises(RunError, match=r"^no service; start it$"):
        run_recipe()
    plugins.manager.unregister(tracker)
    plugins.manager.register(
        failing("stage_finished", RunError("no service")), name="service"
    )
    result = run_recipe(name="later")
    assert len(result.scores) == 2
    assert warnings_of(tmp_path / "later") == [
        f"the plugin `service` failed in `stage_finished`: no service @ {place_in_this_file()}; "
        "the run goes on without it"
    ]


def place_in_this_file():
    number = (
        Path(__file__).read_text().splitlines().index("            raise error") + 1
    )
    return f"{__file__}:{number}"


def test_a_tracker_that_fails_when_a_run_is_resumed_is_left_out(
    recipe_of, plugins, out, run_recipe
):
    recipe = recipe_of()
    with pytest.raises(KeyboardInterrupt):
        run_recipe(RECIPE, "stage.pull.loss.interrupt_at=3")
    plugins.manager.register(failing("run_resumed", ValueError("broken")), name="odd")
    resume(out, recipe, plugins)
    assert any(
        "`odd` failed in `run_resumed`" in warning for warning in warnings_of(out)
    )


def test_an_interruption_in_a_hook_is_no_fault_of_the_tracker(plugins, run_recipe):
    plugins.manager.register(failing("stage_started", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run_recipe()


def test_a_tracker_that_exits_costs_itself_alone(plugins, out, run_recipe):
    plugins.manager.register(failing("stage_started", SystemExit(0)), name="odd")
    assert len(run_recipe().scores) == 2
    (warning,) = warnings_of(out)
    assert warning.startswith(
        "the plugin `odd` failed in `stage_started`: SystemExit: 0 @ "
    )
