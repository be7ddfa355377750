from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sentbed import PluginError, RunError, hookimpl
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


def printed_warnings(capsys):
    """The warnings that the console has shown."""
    return re.findall(r"^warning: (.*)$", capsys.readouterr().err, re.MULTILINE)


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "hook",
    [hook for hook in LIFECYCLE_HOOKS if hook not in RESUMED and hook != "warned"],
)
def test_a_hook_that_fails_costs_its_tracker_alone(
    hook, plugins, recorder, monkeypatch, capsys, run_recipe
):
    registered = plugins.manager.list_name_plugin()
    tracker = failing(hook, ValueError("broken"))
    monkeypatch.setattr(Notes, "build", lambda _: tracker)
    assert len(run_recipe(NOTES).scores) == 2
    assert recorder.names[-1] == "run_finished"
    # It is called no more, and the run after this one has none of it.
    assert tracker.calls.count(hook) == 1
    assert tracker.calls[-1] == hook
    assert plugins.manager.list_name_plugin() == registered

    (warning,) = printed_warnings(capsys)
    assert warning.startswith(
        f"the tracker `notes` of `toy_plugin` failed in `{hook}`: ValueError: broken @ {__file__}:"
    )
    assert warning.endswith("; the run goes on without it")


def test_a_tracker_that_exits_costs_itself_and_no_result(
    plugins, monkeypatch, capsys, run_recipe
):
    tracker = failing("step_finished", SystemExit(0))
    monkeypatch.setattr(Notes, "build", lambda _: tracker)
    assert len(run_recipe(NOTES).scores) == 2
    (warning,) = printed_warnings(capsys)
    assert "`step_finished`: SystemExit: 0" in warning


@pytest.mark.parametrize(
    ("hook", "result", "expected"),
    [
        ("run_started", "7", "a mapping of facts"),
        ("tracker_state", {"bytes": 7}, "a tuple of a name and a mapping"),
        ("tracker_state", ("mine", 7), "a tuple of a name and a mapping"),
        ("report_sections", [7], "a sequence of `ReportSection`"),
        ("write_report", "page.html", "the path of a file"),
    ],
)
def test_a_hook_that_returns_a_wrong_type_costs_its_tracker_alone(
    hook, result, expected, plugins, capsys, run_recipe
):
    tracker = failing(hook, result=result)
    plugins.manager.register(tracker, name="mine")
    run_recipe()
    assert tracker.calls.count(hook) == 1
    (warning,) = printed_warnings(capsys)
    assert warning.startswith(
        f"the plugin `mine` failed in `{hook}`: TypeError: it returned {result!r}, expected {expected} @ "
    )


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


def test_an_interruption_in_a_hook_is_no_fault_of_the_tracker(plugins, run_recipe):
    plugins.manager.register(failing("stage_started", KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        run_recipe()
