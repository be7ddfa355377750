from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest
import toy_plugin
from sentbed import PluginError, RecipeError, hookspecs
from sentbed._cli import main as cli
from sentbed._document.extends import EXTENDS
from sentbed._recipe.load import load_recipe
from sentbed._recipe.recipe import MAIN_ENCODER, Recipe
from sentbed._registry.plugin_offer_rules import CORE_COMMANDS
from sentbed._registry.registry import (
    COMPONENT_HOOKS,
    LIFECYCLE_HOOKS,
    OTHER_OFFER_HOOKS,
    load_plugins,
)
from sentbed.kinds import KINDS, kind_of
from sentbed.protocols import Lazy
from sentbed.protocols.recipe_tables import CORE_TABLES
from toy_fixtures import exactly

LOSS = '''
import attrs
import sentbed
from sentbed.protocols import Loss
from typing import ClassVar

@attrs.frozen
class Mine(Loss):
    """A loss."""
    name: ClassVar[str] = "mine"
    needs = frozenset()
    def build(self, width): ...

@sentbed.hookimpl
def losses():
    return [Mine]
'''


@pytest.fixture
def load_one(distribute):
    """Load `d_plugin`, the only plugin of the distribution `d`, from its source."""

    def load(source):
        return load_plugins(distribute("d", {"d_plugin": source}))

    return load


def required(kind):
    return sorted(kind.base.__abstractmethods__)


def problem_of(source, distribute):
    """Load a plugin beside a good one; returns why it could not be loaded."""
    plugins = load_plugins(
        distribute("broken", {"broken_plugin": source, "good_plugin": LOSS})
    )
    problems = {plugin.name: plugin.problem for plugin in plugins.plugins}
    assert problems["good_plugin"] is None
    assert [name for _, name in plugins.components] == ["mine"]
    assert [name for name, _ in plugins.manager.list_name_plugin()] == [
        "broken:good_plugin"
    ]
    assert problems["broken_plugin"] is not None
    return problems["broken_plugin"]


def test_every_component_of_a_plugin_is_found_under_its_kind_and_name(plugins):
    assert {kind for kind, _ in plugins.components} == set(KINDS)
    assert plugins.names("data") == ["lines", "table", "words"]
    assert plugins.names("loss") == ["chase", "grade", "pull", "sort"]
    info = plugins.find("loss", "pull")
    assert (info.kind, info.name, info.cls) == ("loss", "pull", toy_plugin.Pull)
    assert (info.distribution, info.version) == ("toy", "1.0")
    assert info.summary == "Half the mean squared distance of a pair."


def test_plugins_are_listed_with_name_distribution_and_version(plugins):
    listed = [(p.name, p.distribution, p.problem) for p in plugins.plugins]
    assert listed == [
        ("console", "sentbed-trackers", None),
        ("jsonl", "sentbed-trackers", None),
        ("recorder", "toy", None),
        ("toy", "toy", None),
    ]


def test_a_plugin_that_is_a_class_is_instantiated_for_each_load(toy_points):
    first, second = (
        load_plugins(toy_points).manager.get_plugin("toy:recorder") for _ in range(2)
    )
    assert isinstance(first, toy_plugin.Recorder)
    assert isinstance(second, toy_plugin.Recorder)
    assert first is not second


def test_a_class_plugin_can_offer_components(distribute):
    source = LOSS.partition("@sentbed.hookimpl")[0] + (
        "class Plugin:\n    @sentbed.hookimpl\n    def losses(self):\n        return (Mine,)\n"
    )
    (point,) = distribute("classy", {"classy_plugin": source})
    point = EntryPoint("classy", "classy_plugin:Plugin", "sentbed")
    plugins = load_plugins([point])
    assert list(plugins.components) == [("loss", "mine")]
    assert plugins.find("loss", "mine").distribution == "unknown"


def test_a_function_without_the_marker_is_no_hook(load_one):
    plugins = load_one(LOSS.replace("@sentbed.hookimpl", ""))
    assert plugins.components == {}
    assert plugins.plugins[0].problem is None


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
        (
            LOSS + "    raise KeyError('late')".replace("    raise", "\nraise"),
            "KeyError: 'late'",
        ),
        (LOSS.replace("return [Mine]", "raise OSError('asked')"), "OSError: asked"),
        (
            LOSS.replace("[Mine]", "None"),
            "its hook `losses` returned None, expected a mapping from names to",
        ),
        (
            LOSS.replace("[Mine]", "Mine"),
            "its hook `losses` returned <class 'broken_plugin.Mine'>, expected",
        ),
        (
            LOSS.replace("[Mine]", "'mine'"),
            "its hook `losses` returned 'mine', expected a mapping from",
        ),
        (
            LOSS.replace("[Mine]", "[Mine, Mine]"),
            "it offers the loss `mine` twice; give each a name of its",
        ),
        (
            LOSS.replace("[Mine]", "{'other': Mine}"),
            "`Mine` is called `mine`, and offered as `other`",
        ),
        (
            LOSS.replace('"mine"', '"Mine 2"'),
            "its name has to be of small letters, digits and single dashes",
        ),
        ("import sys\nsys.exit('not here')", "SystemExit: not here"),
        (
            "class Silent(BaseException):\n    def __str__(self):\n        raise ValueError\nraise Silent",
            "Silent",
        ),
        (LOSS.replace("return [Mine]", "return ['Mine']"), "must be an attrs class"),
    ],
)
def test_a_plugin_that_raises_is_listed_with_its_reason_and_stops_no_other(
    source, problem, distribute
):
    assert problem in problem_of(source, distribute)


@pytest.mark.parametrize(
    "raises",
    [
        "raise ValueError(TEXT)",
        "from sentbed import PluginError\nraise PluginError(TEXT)",
    ],
)
def test_what_a_broken_plugin_says_at_length_is_shortened(raises, distribute):
    source = f"TEXT = 'begin' + 'x' * 10**6 + 'end'\n{raises}"
    problem = problem_of(source, distribute)
    assert re.fullmatch(r"(ValueError: )?beginx+ \[...\] x+end", problem)
    assert len(problem) < 2100


TABLE = """\
import attrs
import sentbed
from sentbed.protocols import RecipeTable


@attrs.frozen
class Mine(RecipeTable):
    \"\"\"Numbers of mine.\"\"\"


@sentbed.hookimpl
def recipe_tables():
    return {"NAME": Mine}
"""


@pytest.mark.parametrize("name", sorted(CORE_TABLES))
def test_a_recipe_table_of_a_name_that_core_has_is_refused(name, load_one):
    plugins = load_one(TABLE.replace("NAME", name))
    assert name not in plugins.tables
    assert plugins.plugins[0].reason == (
        f"the recipe table `{name}`: the name belongs to sentbed's own part of a recipe; choose another"
    )


@pytest.mark.parametrize("name", sorted(CORE_COMMANDS))
def test_a_command_of_a_name_that_core_has_is_refused(name, distribute):
    source = (
        LOSS
        + f"""
from sentbed.protocols import Lazy

@sentbed.hookimpl
def commands():
    return {{"{name}": Lazy("nowhere:nothing", "A command.")}}
"""
    )
    points = distribute("d", {"d_plugin": source})
    for commands_only in (False, True):
        (plugin,) = load_plugins(points, commands_only=commands_only).plugins
        assert (plugin.distribution, plugin.status) == ("d", "broken")
        assert plugin.reason == (
            f"the command `{name}`: the name belongs to a command of sentbed's own; choose another"
        )
        assert (plugin.place or "").endswith("/d_plugin.py:20")


def test_the_names_of_commands_of_core_are_those_of_the_command_line():
    assert set(cli.main.commands) == CORE_COMMANDS


def test_the_names_of_core_are_all_keys_of_a_recipe_that_no_plugin_defines():
    fields = {field.name for field in attrs.fields(Recipe)} - {"tables", "document"}
    assert fields | {MAIN_ENCODER, EXTENDS} == CORE_TABLES


@pytest.mark.parametrize(
    ("written", "suggestion"),
    [
        ("losess", "there is no hook `losess`. Did you mean `losses`?"),
        (
            "step_finish",
            "there is no hook `step_finish`. Did you mean `step_finished`?",
        ),
    ],
)
def test_a_misspelt_hook_is_a_problem_that_suggests_the_right_one(
    written, suggestion, distribute
):
    source = LOSS + f"\n@sentbed.hookimpl\ndef {written}():\n    return []\n"
    assert problem_of(source, distribute) == suggestion


def test_a_hook_unlike_any_other_lists_hooks_and_nothing_else(distribute):
    source = LOSS + "\n@sentbed.hookimpl\ndef zzzzzz():\n    return []\n"
    problem = problem_of(source, distribute)
    listed = problem.removeprefix("there is no hook `zzzzzz`. Choose one of ").rstrip(
        "."
    )
    hooks = {*COMPONENT_HOOKS, *OTHER_OFFER_HOOKS, *LIFECYCLE_HOOKS}
    assert set(listed.split(", ")) == {f"`{hook}`" for hook in hooks}


def test_a_hook_that_asks_for_an_unknown_argument_is_a_problem(distribute):
    source = LOSS + "\n@sentbed.hookimpl\ndef run_started(rnu):\n    pass\n"
    assert "rnu" in problem_of(source, distribute)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "@attrs.frozen\n",
            "",
            "the loss `Mine` must be an attrs class with `name: ClassVar[str]`",
        ),
        (
            "@attrs.frozen\n",
            "@attrs.define\n",
            "the loss `Mine` must be frozen: decorate it with `@attrs.frozen`",
        ),
        ('    """A loss."""\n', "", "the loss `Mine` has no docstring"),
        ("def build", "def biuld", "the loss `Mine` has no method `build`"),
        (
            '    name: ClassVar[str] = "mine"\n',
            "",
            "the loss `Mine` must be an attrs class with `name",
        ),
        ('= "mine"', "= 3", "the loss `Mine` must be an attrs class with `name"),
        ("[Mine]", "[Mine()]", "must be an attrs class with `name"),
    ],
)
def test_a_component_that_breaks_a_rule_makes_its_plugin_a_problem(
    old, new, problem, distribute
):
    assert LOSS.count(old) == 1
    reason = problem_of(LOSS.replace(old, new), distribute)
    assert problem in reason
    assert not reason.startswith("PluginError")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS.values() for name in required(kind)],
    ids=str,
)
def test_what_a_kind_must_have_is_asked_for_by_name(kind, name, distribute):
    def plugin(names):
        body = []
        for member in names:
            body.append(f"    {member} = print")
        head, _, tail = LOSS.partition(
            "    needs = frozenset()\n    def build(self, width): ..."
        )
        source = head + "\n".join(body) + tail
        source = source.replace("import Loss", f"import {kind.base.__name__}")
        return source.replace("(Loss)", f"({kind.base.__name__})")

    wrong, right = (
        plugin(names).replace("def losses", f"def {kind.hook}").replace("mine", "other")
        for names in ([it for it in required(kind) if it != name], required(kind))
    )
    problem = problem_of(wrong, distribute)
    assert re.search(rf"the {kind.name} `Mine` has no (method )?`{name}`", problem)
    plugins = load_plugins(distribute("right", {"right_plugin": right}))
    assert list(plugins.components) == [(kind.name, "other")]


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_kind_and_its_hook_agree(kind):
    names = {
        "Sequence": Sequence,
        "Mapping": Mapping,
        "Lazy": Lazy,
        kind.base_name: kind.base,
    }
    hint = get_type_hints(getattr(hookspecs, kind.hook), localns=names)["return"]
    assert hint == Sequence[type[kind.base]] | Mapping[str, Lazy]
    assert kind_of(kind.base) is kind


def test_every_hook_is_that_of_a_kind_an_offer_or_a_run():
    hooks = {
        name
        for name, value in vars(hookspecs).items()
        if hasattr(value, "sentbed_spec")
    }
    assert hooks == {*COMPONENT_HOOKS, *OTHER_OFFER_HOOKS, *LIFECYCLE_HOOKS}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "class Mine(Loss):",
            "class Mine:",
            "the loss `Mine` does not inherit from `sentbed.protocols.Loss`; write `class Mine(Loss)`",
        ),
    ],
)
def test_a_component_that_says_what_it_can_do_in_another_way_is_a_problem(
    old, new, problem, distribute
):
    assert problem_of(LOSS.replace(old, new), distribute) == problem


# --- plugins -----------------------------------------------------------------------------------------------


def test_a_hook_under_another_name_is_a_hook(load_one):
    source = LOSS.replace(
        "@sentbed.hookimpl\ndef losses",
        "@sentbed.hookimpl(specname='losses')\ndef mine",
    )
    plugins = load_one(source)
    assert list(plugins.components) == [("loss", "mine")]
    assert plugins.plugins[0].kinds == ("loss",)


def test_a_misspelt_specname_is_a_problem_of_its_function(load_one):
    source = LOSS.replace(
        "@sentbed.hookimpl\ndef losses",
        "@sentbed.hookimpl(specname='losess')\ndef mine",
    )
    (plugin,) = load_one(source).plugins
    assert plugin.problem == "there is no hook `losess`. Did you mean `losses`?"
    assert str(plugin.place).endswith("d_plugin.py:14")


def test_one_module_under_two_entry_points_is_loaded_once_and_said(distribute):
    (point,) = distribute("d", {"d_plugin": LOSS})
    again = EntryPoint("other", "d_plugin", "sentbed")
    vars(again).update(dist=point.dist)
    plugins = load_plugins([point, again])
    assert [plugin.problem for plugin in plugins.plugins] == [
        None,
        "it is the same as the plugin `d:d_plugin`; one entry point for it is enough",
    ]
    assert plugins.names("loss") == ["mine"]


def test_two_plugins_of_one_distribution_and_name_leave_the_first(distribute):
    hears = "\n@sentbed.hookimpl\ndef warned(): ...\n"
    first, second = distribute(
        "d", {"a_plugin": LOSS + hears, "b_plugin": LOSS.replace("mine", "other")}
    )
    twin = EntryPoint(first.name, second.value, "sentbed")
    vars(twin).update(dist=first.dist)
    plugins = load_plugins([first, twin])
    assert [plugin.problem for plugin in plugins.plugins] == [
        None,
        "`d` has another plugin of this name; give each entry point a name of its own",
    ]
    assert plugins.names("loss") == ["mine"]
    assert [
        implementation.plugin_name
        for implementation in plugins.manager.hook.warned.get_hookimpls()
    ] == ["d:a_plugin"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import json\n\njson.loads('{')\n", 3),
        ("x = 1\ndef f(:\n", 2),
        (LOSS.replace("return [Mine]", "return [\n        Mine, 1 / 0]"), 17),
        (LOSS.replace("def losses", "def losess"), 14),
        (LOSS.replace("@attrs.frozen\n", "@attrs.define\n"), 7),
        (LOSS.replace("[Mine]", "['Mine']"), 14),
    ],
)
def test_the_place_is_the_innermost_line_of_the_plugins_own_code(
    source, line, distribute, tmp_path
):
    (plugin,) = load_plugins(distribute("broken", {"broken_plugin": source})).plugins
    assert plugin.status == "broken"
    assert plugin.place == f"{tmp_path / 'site' / 'broken_plugin.py'}:{line}"


def test_ctrl_c_while_a_plugin_is_imported_is_no_fault_of_the_plugin(distribute):
    with pytest.raises(KeyboardInterrupt):
        load_plugins(distribute("slow", {"slow_plugin": "raise KeyboardInterrupt"}))


def test_an_installation_that_has_lost_its_metadata_stops_no_other(
    distribute, tmp_path
):
    points = distribute("lost", {"lost_plugin": LOSS}) + distribute(
        "whole", {"whole_plugin": LOSS.replace("mine", "other")}
    )
    (tmp_path / "site" / "lost-1.0.dist-info" / "METADATA").unlink()
    plugins = load_plugins(points)
    assert plugins.find("loss", "other").distribution == "whole"
    info = plugins.find("loss", "mine")
    assert (info.distribution, info.version) == ("unknown", "0")


def test_a_broken_plugin_hears_no_lifecycle_hook(distribute, tmp_path):
    source = LOSS.replace("return [Mine]", "return [1]") + (
        "\n@sentbed.hookimpl\ndef run_started(run):\n    raise AssertionError('called')\n"
    )
    plugins = load_plugins(distribute("broken", {"broken_plugin": source}))
    assert plugins.plugins[0].problem is not None
    assert plugins.manager.hook.run_started(run=None) == []


# --- two of one name ---------------------------------------------------------------------------------------


def two_of_one_name(distribute):
    """Two distributions that claim the loss `mine`, and one that offers another."""
    return [
        *distribute("first-dist", {"first_plugin": LOSS}),
        *distribute("second-dist", {"second_plugin": LOSS}),
        *distribute("third-dist", {"third_plugin": LOSS.replace("mine", "other")}),
    ]


def test_a_name_that_two_distributions_claim_stops_only_who_asks_for_it(
    distribute, tmp_path
):
    plugins = load_plugins(two_of_one_name(distribute))
    assert plugins.names("loss") == ["other"]
    assert plugins.find("loss", "other").distribution == "third-dist"
    assert {plugin.status for plugin in plugins.plugins} == {"loaded"}
    with pytest.raises(PluginError) as caught:
        plugins.find("loss", "mine")
    site = tmp_path / "site"
    assert str(caught.value) == (
        f"the loss `mine` is offered by `first-dist` 1.0 (first_plugin, {site}/first_plugin.py) and by "
        f"`second-dist` 1.0 (second_plugin, {site}/second_plugin.py); uninstall or disable all but one"
    )


def test_without_one_of_the_two_the_other_is_found(distribute, monkeypatch):
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "first-dist")
    plugins = load_plugins(two_of_one_name(distribute))
    assert plugins.find("loss", "mine").distribution == "second-dist"
    assert plugins.clashes == {}


def test_one_name_may_stand_for_components_of_two_kinds(distribute):
    pooler = LOSS.replace("def losses", "def poolers").replace("Loss", "Pooler")
    points = distribute("first-dist", {"first_plugin": LOSS}) + distribute(
        "second-dist", {"second_plugin": pooler}
    )
    assert set(load_plugins(points).components) == {
        ("loss", "mine"),
        ("pooler", "mine"),
    }


def test_two_distributions_may_use_one_entry_point_name(distribute):
    points = distribute("first-dist", {"first_plugin": LOSS})
    points += distribute(
        "second-dist", {"second_plugin": LOSS.replace("mine", "other")}
    )
    same = [EntryPoint("same", point.value, point.group) for point in points]
    for renamed, point in zip(same, points, strict=True):
        vars(renamed).update(dist=point.dist)
    plugins = load_plugins(same)
    assert set(plugins.components) == {("loss", "mine"), ("loss", "other")}
    assert [(p.name, p.distribution) for p in plugins.plugins] == [
        ("same", "first-dist"),
        ("same", "second-dist"),
    ]


CONTESTED = (
    LOSS
    + TABLE.replace("NAME", "contested")
    .replace("class Mine(RecipeTable)", "class Table(RecipeTable)")
    .replace(": Mine", ": Table")
    + """
from sentbed.protocols import Lazy

@sentbed.hookimpl
def commands():
    return {"contest": Lazy("nowhere:nothing", "A command."), "OWN": Lazy("nowhere:nothing", "A command.")}
"""
)
"""A plugin with a recipe table and a command that another offers too, and more of its own."""


def plugin_of_contest(distribute, name):
    source = CONTESTED.replace("mine", name).replace("OWN", name)
    return distribute(f"{name}-dist", {f"{name}_plugin": source})


def test_of_two_that_claim_a_table_or_a_command_none_has_it_and_both_keep_the_rest(
    distribute, tmp_path
):
    plugins = load_plugins(
        plugin_of_contest(distribute, "later")
        + plugin_of_contest(distribute, "earlier")
    )
    assert {plugin.status for plugin in plugins.plugins} == {"loaded"}
    assert set(plugins.components) == {("loss", "earlier"), ("loss", "later")}
    assert set(plugins.commands) == {"earlier", "later"}
    assert set(plugins.tables) == set()
    site = tmp_path / "site"
    assert {at: plugins.clash(*at) for at in plugins.clashes} == {
        ("command", "contest"): (
            "the command `contest` is offered by `earlier-dist` 1.0 (nowhere) and by `later-dist` 1.0 "
            "(nowhere); uninstall or disable all but one"
        ),
        ("recipe table", "contested"): (
            f"the recipe table `contested` is offered by `earlier-dist` 1.0 (earlier_plugin, "
            f"{site}/earlier_plugin.py) and by `later-dist` 1.0 (later_plugin, {site}/later_plugin.py); "
            "uninstall or disable all but one"
        ),
    }


def test_a_command_that_two_claim_is_none_where_only_commands_are_collected(distribute):
    points = plugin_of_contest(distribute, "later") + plugin_of_contest(
        distribute, "earlier"
    )
    plugins = load_plugins(points, commands_only=True)
    assert set(plugins.commands) == {"earlier", "later"}
    assert ("command", "contest") in plugins.clashes


def test_a_recipe_with_a_table_that_two_claim_is_a_problem_and_others_are_read(
    distribute, toy_points, put
):
    points = plugin_of_contest(distribute, "later") + plugin_of_contest(
        distribute, "earlier"
    )
    plugins = load_plugins([*toy_points, *points])
    assert (
        set(load_recipe(put("plain.toml", toy_plugin.RECIPE), plugins=plugins).tables)
        == set()
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(
            put("contested.toml", toy_plugin.RECIPE + "\n[contested]\n"),
            plugins=plugins,
        )
    (problem,) = caught.value.problems
    assert problem.message == plugins.clash("recipe table", "contested")
    assert problem.path == "contested"


# --- find --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("data", "word", "there is no data `word`. Did you mean `words`?"),
        (
            "data",
            "zzz",
            "there is no data `zzz`. Choose one of `lines`, `table`, `words`.",
        ),
        (
            "pooler",
            "mean",
            "the pooler `mean` belongs to `sentbed-poolers`, which is not installed; "
            "install it with `pip install sentbed-poolers`",
        ),
    ],
)
def test_a_component_that_is_not_there_is_an_error_that_says_what_to_do(
    kind, name, message, plugins
):
    with pytest.raises(PluginError, match=exactly(message)):
        plugins.find(kind, name)


def test_a_kind_that_no_plugin_offers_is_named():
    with pytest.raises(
        PluginError,
        match=r"^there is no loss `x`: no installed plugin offers any loss\.$",
    ):
        load_plugins([]).find("loss", "x")


def test_a_component_of_a_plugin_that_could_not_be_loaded_is_an_error_with_the_reason(
    distribute,
):
    plugins = load_plugins(
        distribute("sentbed-poolers", {"broken_poolers": "raise ValueError('too old')"})
    )
    with pytest.raises(
        PluginError,
        match=exactly(
            "the pooler `mean` belongs to `sentbed-poolers`, which could not be loaded: ValueError: too old"
        ),
    ):
        plugins.find("pooler", "mean")


def test_installed_plugins_are_found_by_their_entry_points(installed_toy):
    plugins = load_plugins()
    assert ("backbone", "characters") in plugins.components
    assert {"console", "jsonl", "toy"} <= {plugin.name for plugin in plugins.plugins}


def test_what_is_not_loaded_is_named_with_the_reason(
    toy_points, monkeypatch, distribute
):
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "sentbed-trackers")
    broken = distribute("d", {"d_plugin": "raise OSError('late')"})
    with pytest.raises(PluginError) as caught:
        load_plugins([*toy_points, *broken]).find("pooler", "zzz")
    assert str(caught.value) == (
        "there is no pooler `zzz`. Choose one of `average`."
        " The plugin `d_plugin` of `d` could not be loaded: OSError: late."
        " The plugin `console` of `sentbed-trackers` is disabled by the environment variable"
        " `SENTBED_PLUGINS_DISABLE`; take it out there. The plugin `jsonl` of `sentbed-trackers` is disabled by"
        " the environment variable `SENTBED_PLUGINS_DISABLE`; take it out there."
    )


# --- where a class is from ---------------------------------------------------------------------------------


def test_a_class_is_of_the_plugin_that_offers_it_wherever_it_is_defined(load_one, put):
    put("site/other_module.py", LOSS.partition("@sentbed.hookimpl")[0])
    source = "import sentbed\nfrom other_module import Mine\n@sentbed.hookimpl\ndef losses(): return [Mine]\n"
    plugins = load_one(source)
    info = plugins.origin(plugins.find("loss", "mine").cls)
    assert (info.cls.__module__, info.release) == ("other_module", "d 1.0")
    assert plugins.origin(Path) is None


def test_a_class_whose_name_two_claim_is_still_of_its_plugin(distribute):
    plugins = load_plugins(two_of_one_name(distribute))
    (_, second) = plugins.clashes["loss", "mine"]
    assert plugins.origin(second.cls) is second


# --- who is loaded -----------------------------------------------------------------------------------------


def test_a_disabled_plugin_is_not_even_imported(distribute, monkeypatch):
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "off-dist, not-there")
    plugins = load_plugins(
        distribute("off-dist", {"off_plugin": "raise AssertionError('imported')"})
    )
    (plugin,) = plugins.plugins
    assert (plugin.status, plugin.problem) == ("disabled", None)
    assert (
        plugin.reason
        == "disabled by the environment variable `SENTBED_PLUGINS_DISABLE`; take it out there"
    )


def test_lifecycle_hooks_are_those_that_offer_nothing():
    assert set(LIFECYCLE_HOOKS).isdisjoint({*COMPONENT_HOOKS, *OTHER_OFFER_HOOKS})
    assert LIFECYCLE_HOOKS[0] == "run_started"
    assert LIFECYCLE_HOOKS[-1] == "run_failed"


def test_a_package_in_a_zip_file_is_loaded(tmp_path, monkeypatch, distribute):
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as archive:
        archive.writestr("zipped/__init__.py", LOSS)
    monkeypatch.syspath_prepend(tmp_path / "packages.zip")
    (point,) = distribute("d", {"d_plugin": LOSS})
    zipped = EntryPoint("zipped", "zipped", "sentbed")
    vars(zipped).update(dist=point.dist)
    plugins = load_plugins([zipped])
    (plugin,) = plugins.plugins
    assert plugin.problem is None
    assert plugins.names("loss") == ["mine"]


def test_an_object_that_fails_when_it_is_asked_for_an_attribute_breaks_no_plugin(
    distribute,
):
    proxy = "class Proxy:\n    def __getattr__(self, name):\n        raise ImportError(name)\n"
    points = distribute("d", {"d_plugin": f"{LOSS}\n{proxy}\nlazy = Proxy()\n"})
    plugins = load_plugins(points)
    (plugin,) = plugins.plugins
    assert plugin.problem is None
    assert plugins.names("loss") == ["mine"]


def test_a_module_that_hides_the_hook_of_its_name_is_refused(
    tmp_path, monkeypatch, distribute
):
    package = tmp_path / "hiding"
    package.mkdir()
    imports = "import sentbed\n@sentbed.hookimpl\ndef losses():\n    from hiding.losses import Mine\n"
    (package / "__init__.py").write_text(f"{imports}    return [Mine]\n")
    (package / "losses.py").write_text(LOSS)
    monkeypatch.syspath_prepend(tmp_path)
    (point,) = distribute("d", {"d_plugin": LOSS})
    hiding = EntryPoint("hiding", "hiding", "sentbed")
    vars(hiding).update(dist=point.dist)
    (plugin,) = load_plugins([hiding]).plugins
    assert (
        plugin.problem
        == "its module `losses` hides its hook of that name; rename the module"
    )
