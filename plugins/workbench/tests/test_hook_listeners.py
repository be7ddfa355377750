from __future__ import annotations

from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed._registry.registry import LIFECYCLE_HOOKS
from sentbed._run import runner
from sentbed._run.history import History
from sentbed_workbench.hook_listeners import listeners
from toy_plugin import RECIPE, quicken


def shown():
    result = CliRunner().invoke(cli.main, ["show", "hooks"])
    assert result.exit_code == 0, result.output
    return result.output


def test_every_lifecycle_hook_stands_with_who_hears_it(distribute):
    distribute(
        "ear-dist", {"ear": "import sentbed\n@sentbed.hookimpl\ndef warned(): ...\n"}
    )
    head, _, table = shown().partition("\n\n")
    assert head.startswith("In a run the recipe's trackers hear each hook first")
    lines = {line.split()[0]: line.split(maxsplit=1)[1] for line in table.splitlines()}
    assert list(lines) == list(LIFECYCLE_HOOKS)
    assert (
        lines["warned"]
        == "history, sentbed-trackers:jsonl, sentbed-trackers:console, ear-dist:ear"
    )
    assert lines["checkpoint_saved"] == "sentbed-trackers:jsonl"


def test_warnings_stand_below_the_hooks(monkeypatch):
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "typo")
    place = "the environment variable `SENTBED_PLUGINS_DISABLE`"
    warning = (
        f"warning: `disable` of {place} names `typo`, which is not an installed plugin."
    )
    assert shown().endswith(f"\n\n{warning}\n")


def test_a_run_calls_hooks_in_the_order_that_is_printed(
    recipe_of,
    plugins,
    tmp_path,
    monkeypatch,
):
    quicken(monkeypatch)
    printed = listeners(plugins)["step_finished"]
    plugins.manager.unregister(name="history")  # each run registers its own
    ours = ["sentbed-trackers:jsonl", "sentbed-trackers:console"]
    assert printed == ["history", "toy:recorder", *ours]
    notes = '\n[[tracker]]\nuse = "notes"\nfile = "{}"\n'
    recipe = recipe_of(RECIPE + notes.format("first") + notes.format("last"))
    called = []

    def before(hook, methods, _):
        if hook == "step_finished":
            # pluggy calls a list of implementations from its end.
            called.append([method.plugin for method in reversed(methods)])

    plugins.manager.add_hookcall_monitoring(before, lambda *_: None)
    runner.run(recipe, tmp_path / "run", plugins)
    last, first, history, *others = called[0]
    assert (last.file, first.file) == ("last", "first")
    assert isinstance(history, History)
    assert [plugins.manager.get_name(listener) for listener in others] == printed[1:]
