from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import toy_plugin
from sentbed import PluginError
from sentbed.registry import KINDS, METHODS, Plugins, load_plugins

Distribute = Callable[[str, Mapping[str, str]], list[EntryPoint]]

LOSS = '''
import attrs
import sentbed
from typing import ClassVar

@attrs.frozen
class Mine:
    """A loss."""
    name: ClassVar[str] = "mine"
    needs: ClassVar[frozenset[str]] = frozenset()
    def build(self, width): ...

@sentbed.hookimpl
def losses():
    return [Mine]
'''


def problem_of(source: str, distribute: Distribute) -> str:
    """Load a plugin beside a good one; returns why it could not be loaded."""
    found = load_plugins(distribute("broken", {"broken_plugin": source, "good_plugin": LOSS}))
    problems = {plugin.name: plugin.problem for plugin in found.plugins}
    assert problems["good_plugin"] is None
    assert [name for _, name in found.components] == ["mine"]
    assert [name for name, _ in found.manager.list_name_plugin()] == ["broken:good_plugin"]
    assert problems["broken_plugin"] is not None
    return problems["broken_plugin"]


def test_every_component_of_a_plugin_is_found_under_its_kind_and_name(plugins: Plugins):
    assert set(plugins.components) == {
        ("backbone", "characters"),
        ("pooler", "average"),
        ("loss", "pull"),
        ("loss", "sort"),
        ("loss", "chase"),
        ("data", "words"),
        ("data", "lines"),
        ("data", "table"),
        ("evaluator", "gap"),
        ("evaluator", "across"),
        ("evaluator", "lottery"),
        ("evaluator", "nearness"),
        ("runtime", "toy"),
        ("optimizer", "sgd"),
        ("schedule", "falling"),
        ("tracker", "notes"),
        ("exporter", "numbers"),
        ("importer", "numbers"),
    }
    assert {kind for kind, _ in plugins.components} == set(KINDS)
    info = plugins.find("loss", "pull")
    assert (info.kind, info.name, info.cls) == ("loss", "pull", toy_plugin.Pull)
    assert (info.distribution, info.version) == ("toy", "1.0")
    assert info.summary == "Half the mean squared distance of a pair."


def test_names_of_a_kind_are_sorted(plugins: Plugins):
    assert plugins.names("data") == ["lines", "table", "words"]


def test_plugins_are_listed_with_name_distribution_and_version(plugins: Plugins):
    listed = [(p.name, p.distribution, p.problem) for p in plugins.plugins]
    assert listed == [
        ("console", "sentbed", None),
        ("jsonl", "sentbed", None),
        ("recorder", "toy", None),
        ("toy", "toy", None),
    ]


def test_a_plugin_that_is_a_class_is_instantiated_for_each_load(toy_points: list[EntryPoint]):
    one, other = (load_plugins(toy_points).manager.get_plugin("toy:recorder") for _ in range(2))
    assert isinstance(one, toy_plugin.Recorder)
    assert isinstance(other, toy_plugin.Recorder)
    assert one is not other


def test_a_class_plugin_can_offer_components(distribute: Distribute):
    source = LOSS.partition("@sentbed.hookimpl")[0] + (
        "class Plugin:\n    @sentbed.hookimpl\n    def losses(self):\n        return (Mine,)\n"
    )
    (point,) = distribute("classy", {"classy_plugin": source})
    point = EntryPoint("classy", "classy_plugin:Plugin", "sentbed")
    found = load_plugins([point])
    assert list(found.components) == [("loss", "mine")]
    assert found.find("loss", "mine").distribution == "unknown"


def test_a_function_without_the_marker_is_no_hook(distribute: Distribute):
    found = load_plugins(distribute("d", {"d_plugin": LOSS.replace("@sentbed.hookimpl", "")}))
    assert found.components == {}
    assert found.plugins[0].problem is None


# --- plugins that cannot be loaded -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("raise RuntimeError('no GPU here')", "RuntimeError: no GPU here"),
        (
            "import a_module_that_is_not_there",
            "ModuleNotFoundError: No module named 'a_module_that_is_not_there'",
        ),
        ("def f(:", "SyntaxError: "),
        (LOSS + "    raise KeyError('late')".replace("    raise", "\nraise"), "KeyError: 'late'"),
        (LOSS.replace("return [Mine]", "raise OSError('asked')"), "OSError: asked"),
        (LOSS.replace("return [Mine]", "return None"), "TypeError: "),
        (LOSS.replace("return [Mine]", "return ['Mine']"), "must be an attrs class"),
    ],
)
def test_a_plugin_that_raises_is_listed_with_its_reason_and_stops_no_other(
    source: str, problem: str, distribute: Distribute
):
    assert problem in problem_of(source, distribute)


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [
        ("losess", "there is no hook `losess`. Did you mean `losses`?"),
        ("step_finish", "there is no hook `step_finish`. Did you mean `step_finished`?"),
    ],
)
def test_a_misspelt_hook_is_a_problem_that_suggests_the_right_one(
    written: str, suggestion: str, distribute: Distribute
):
    source = LOSS + f"\n@sentbed.hookimpl\ndef {written}():\n    return []\n"
    assert problem_of(source, distribute) == f"PluginError: {suggestion}"


# Fails: the choices are every public name of `hookspecs`, imported types and `Path` included.
def test_a_hook_unlike_any_other_lists_hooks_and_nothing_else(distribute: Distribute):
    source = LOSS + "\n@sentbed.hookimpl\ndef zzzzzz():\n    return []\n"
    problem = problem_of(source, distribute)
    listed = problem.removeprefix("PluginError: there is no hook `zzzzzz`. Choose one of ").rstrip(".")
    assert set(listed.split(", ")) == {
        f"`{hook}`"
        for hook in (
            *KINDS.values(),
            "run_started",
            "run_resumed",
            "known_data",
            "findings",
            "evaluation_started",
            "evaluation_progressed",
            "scores_ready",
            "stage_started",
            "step_finished",
            "validated",
            "observed",
            "checkpoint_saved",
            "tracker_state",
            "warned",
            "stage_finished",
            "run_finished",
            "run_failed",
        )
    }


def test_a_hook_that_asks_for_an_unknown_argument_is_a_problem(distribute: Distribute):
    source = LOSS + "\n@sentbed.hookimpl\ndef run_started(rnu):\n    pass\n"
    assert "rnu" in problem_of(source, distribute)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("@attrs.frozen\n", "", "the loss `Mine` must be an attrs class with `name: ClassVar[str]`"),
        (
            "@attrs.frozen\n",
            "@attrs.define\n",
            "the loss `Mine` must be frozen: decorate it with `@attrs.frozen`",
        ),
        ('    """A loss."""\n', "", "the loss `Mine` has no docstring"),
        ("def build", "def biuld", "the loss `Mine` has no method `build`"),
        ('    name: ClassVar[str] = "mine"\n', "", "the loss `Mine` must be an attrs class with `name"),
        ('= "mine"', "= 3", "the loss `Mine` must be an attrs class with `name"),
        ("[Mine]", "[Mine()]", "must be an attrs class with `name"),
    ],
)
def test_a_component_that_breaks_a_rule_makes_its_plugin_a_problem(
    old: str, new: str, problem: str, distribute: Distribute
):
    assert LOSS.count(old) == 1
    found = problem_of(LOSS.replace(old, new), distribute)
    assert found.startswith(f"PluginError: {problem}" if "`Mine`" in problem else "PluginError: ")
    assert problem in found


@pytest.mark.parametrize(("kind", "method"), sorted(METHODS.items()))
def test_the_method_that_a_kind_must_have_is_asked_for_by_name(
    kind: str, method: str, distribute: Distribute
):
    wrong = LOSS.replace("def losses", f"def {KINDS[kind]}")
    assert f"has no method `{method}`" in problem_of(wrong, distribute)
    right = wrong.replace("def build", f"columns = ()\n    def {method}").replace("mine", "other")
    found = load_plugins(distribute("right", {"right_plugin": right}))
    assert list(found.components) == [(kind, "other")]


def test_a_broken_plugin_hears_no_lifecycle_hook(distribute: Distribute, tmp_path: Path):
    source = LOSS.replace("return [Mine]", "return [1]") + (
        "\n@sentbed.hookimpl\ndef run_started(run):\n    raise AssertionError('called')\n"
    )
    found = load_plugins(distribute("broken", {"broken_plugin": source}))
    assert found.plugins[0].problem is not None
    assert found.manager.hook.run_started(run=None) == []


# --- two of one name ---------------------------------------------------------------------------------------


def test_a_name_that_two_distributions_claim_is_an_error_that_names_both(distribute: Distribute):
    points = distribute("first-dist", {"first_plugin": LOSS}) + distribute(
        "second-dist", {"second_plugin": LOSS}
    )
    with pytest.raises(PluginError) as caught:
        load_plugins(points)
    assert str(caught.value) == (
        "the loss `mine` is offered by `first-dist` and by `second-dist`; uninstall one of them"
    )


def test_one_name_may_stand_for_components_of_two_kinds(distribute: Distribute):
    pooler = LOSS.replace("def losses", "def poolers")
    points = distribute("first-dist", {"first_plugin": LOSS}) + distribute(
        "second-dist", {"second_plugin": pooler}
    )
    assert set(load_plugins(points).components) == {("loss", "mine"), ("pooler", "mine")}


def test_two_distributions_may_use_one_entry_point_name(distribute: Distribute):
    points = distribute("first-dist", {"first_plugin": LOSS})
    points += distribute("second-dist", {"second_plugin": LOSS.replace("mine", "other")})
    same = [EntryPoint("same", point.value, point.group) for point in points]
    for renamed, point in zip(same, points, strict=True):
        vars(renamed).update(dist=point.dist)
    found = load_plugins(same)
    assert set(found.components) == {("loss", "mine"), ("loss", "other")}
    assert [(p.name, p.distribution) for p in found.plugins] == [
        ("same", "first-dist"),
        ("same", "second-dist"),
    ]


# --- find --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("data", "word", "there is no data `word`. Did you mean `words`?"),
        ("data", "zzz", "there is no data `zzz`. Choose one of `lines`, `table`, `words`."),
        (
            "pooler",
            "mean",
            "the pooler `mean` belongs to `sentbed-poolers`, which is not installed; "
            "install it with `pip install sentbed-poolers`",
        ),
    ],
)
def test_a_component_that_is_not_there_is_an_error_that_says_what_to_do(
    kind: str, name: str, message: str, plugins: Plugins
):
    with pytest.raises(PluginError) as caught:
        plugins.find(kind, name)
    assert str(caught.value) == message


def test_a_kind_that_no_plugin_offers_is_named():
    with pytest.raises(PluginError, match=r"^there is no loss `x`: no installed plugin offers any loss$"):
        load_plugins([]).find("loss", "x")


def test_a_component_of_a_plugin_that_could_not_be_loaded_is_an_error_with_the_reason(distribute: Distribute):
    found = load_plugins(distribute("sentbed-poolers", {"broken_poolers": "raise ValueError('too old')"}))
    with pytest.raises(PluginError) as caught:
        found.find("pooler", "mean")
    assert str(caught.value) == (
        "the pooler `mean` belongs to `sentbed-poolers`, which could not be loaded: ValueError: too old"
    )


def test_installed_plugins_are_found_by_their_entry_points(installed_toy: Path):
    found = load_plugins()
    assert ("backbone", "characters") in found.components
    assert {"console", "jsonl", "toy"} <= {plugin.name for plugin in found.plugins}
