from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_type_hints

import attrs
import pytest
import toy_plugin
from click.testing import CliRunner
from sentbed import PluginError, RecipeError, __version__, hookspecs, load_recipe
from sentbed._cli import main as cli
from sentbed._document.extends import EXTENDS
from sentbed._recipe.recipe import resolved_toml
from sentbed._registry.offers import CORE_COMMANDS, CORE_TABLES
from sentbed._registry.registry import HOOKS, LIFECYCLE_HOOKS, OFFER_HOOKS, load_plugins
from sentbed.kinds import KINDS, kind_of
from sentbed.protocols import MAIN_ENCODER, Recipe

LOSS = '''
import attrs
import sentbed
from sentbed.protocols import Loss
from typing import ClassVar

@attrs.frozen
class Mine(Loss):
    """A loss."""
    name: ClassVar[str] = "mine"
    columns = frozenset()
    def build(self, width): ...

@sentbed.hookimpl
def losses():
    return [Mine]
'''

TARGETS = """
import sentbed

@sentbed.hookimpl
def losses():
    return {"mine": "NAME_module:Mine"}

@sentbed.hookimpl
def commands():
    return {"greet": "NAME_module:greet", "NAME": "NAME_module:greet"}

@sentbed.hookimpl
def recipe_tables():
    return {"extra": "NAME_module:Extra"}
"""
"""A plugin whose classes and commands are imported when they are used."""

MODULE = (
    LOSS.partition("@sentbed.hookimpl")[0]
    + '''
import click
from sentbed.protocols import RecipeTable

@click.command()
def greet():
    """Greet everybody."""
    click.echo("hello")

@attrs.frozen
class Extra(RecipeTable):
    """A table."""
'''
)

RECIPE = toy_plugin.RECIPE


@pytest.fixture
def with_targets(distribute):
    """Install a distribution with the plugin `TARGETS`, and this source of the module of its targets."""

    def install(name, module):
        plugin = TARGETS.replace("NAME", name)
        modules = {f"{name}_plugin": plugin, f"{name}_module": module}
        points = distribute(f"{name}-dist", modules)
        return [point for point in points if point.name.endswith("_plugin")]

    return install


def listed():
    """Return the output of `sentbed plugins`."""
    result = CliRunner().invoke(cli.main, ["plugins"])
    assert result.exit_code == 0, result.output
    return result.output


def rows(output):
    return [line.split() for line in output.splitlines()]


# --- plugins that are loaded -------------------------------------------------------------------------------


def test_every_component_of_a_plugin_is_found_under_its_kind_and_name(plugins):
    assert plugins.names("loss") == ["chase", "grade", "pull", "sort"]
    assert plugins.load("loss", "pull") is toy_plugin.Pull
    offer = plugins.origin(toy_plugin.Pull)
    assert (offer.kind, offer.name, offer.release) == ("loss", "pull", "toy 1.0")
    assert plugins.origin(Path) is None
    assert plugins.origin(plugins.load("recipe table", "dice")).release == "toy 1.0"


def test_plugins_and_components_are_listed(installed_toy):
    plugins, _, components = listed().partition("\n\n")
    lines = rows(plugins)
    assert lines[0] == ["PLUGIN", "OFFERS", "DISTRIBUTION", "VERSION", "STATUS"]
    assert ["console", "hooks", "sentbed-trackers", __version__, "loaded"] in lines
    (toy,) = [line for line in lines if line[0] == "toy"]
    assert toy[-3:] == ["toy", "1.0", "loaded"]
    assert {"backbone,", "loss,", "evaluator,"} <= {*toy}

    lines = rows(components)
    assert lines[0] == ["KIND", "NAME", "DISTRIBUTION"]
    assert ["loss", "pull", "toy"] in lines
    kinds = [line[0] for line in lines[1:]]
    assert kinds == sorted(kinds, key=list(KINDS).index)


def test_a_target_is_imported_when_it_is_used(with_targets):
    points = with_targets("lazy", MODULE)
    plugins = load_plugins(points)
    assert plugins.names("loss") == ["mine"]
    assert "lazy_module" not in sys.modules

    cls = plugins.load("loss", "mine")
    assert cls.__module__ == "lazy_module"
    assert plugins.load("loss", "mine") is cls
    assert plugins.origin(cls).release == "lazy-dist 1.0"

    output = CliRunner().invoke(cli.main, ["--help"]).output
    assert re.search(r"lazy +Greet everybody\.", output)
    assert CliRunner().invoke(cli.main, ["lazy"]).output == "hello\n"


def test_every_hook_offers_something_or_is_that_of_a_run():
    others = {*HOOKS} - {*OFFER_HOOKS} - {*LIFECYCLE_HOOKS}
    assert others == {"known_data", "vector_store"}
    assert {*OFFER_HOOKS}.isdisjoint(LIFECYCLE_HOOKS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_kind_and_its_hook_agree(kind):
    names = {"Sequence": Sequence, "Mapping": Mapping, kind.base_name: kind.base}
    hint = get_type_hints(getattr(hookspecs, kind.hook), localns=names)["return"]
    assert hint == Sequence[type[kind.base]] | Mapping[str, str]
    assert kind_of(kind.base) is kind


def test_names_of_core_are_those_of_its_commands_and_of_keys_of_a_recipe():
    assert set(cli.main.commands) == CORE_COMMANDS
    fields = {field.name for field in attrs.fields(Recipe)} - {"tables", "document"}
    assert fields | {MAIN_ENCODER, EXTENDS} == CORE_TABLES


# --- plugins that cannot be loaded -------------------------------------------------------------------------

FAULTY_PLUGINS = {
    "raises": ("raise RuntimeError('no\\nGPU')", "RuntimeError: no GPU @ FILE:1"),
    "exits": ("import sys\nsys.exit('not here')", "SystemExit: not here @ FILE:2"),
    "does not parse": ("x = 1\ndef f(:", "SyntaxError: invalid syntax"),
    "import fails": ("import nowhere", "No module named 'nowhere' @ FILE:1"),
    "hook raises": (LOSS.replace("[Mine]", "1 / 0"), "division by zero @ FILE:16"),
    "hook returns nothing": (
        LOSS.replace("[Mine]", "None"),
        "its hook `losses` returned None, expected a list of classes",
    ),
    "misspelt hook": (
        LOSS.replace("def losses", "def losess"),
        "there is no hook `losess`. Did you mean `losses`?",
    ),
    "unknown argument": (LOSS.replace("losses()", "losses(width)"), "'width'"),
    "no class": (LOSS.replace("[Mine]", "[Mine()]"), "expected a class below"),
    "no component": (LOSS.replace("Mine(Loss)", "Mine"), "expected a class below"),
    "no attrs class": (LOSS.replace("@attrs.frozen", ""), "no frozen attrs class"),
    "not frozen": (LOSS.replace("frozen\n", "define\n"), "no frozen attrs class"),
    "no method": (LOSS.replace("build", "biuld"), "`Mine` has no `build`"),
    "other name": (
        LOSS.replace("[Mine]", "{'other': Mine}"),
        "`Mine` has the name 'mine', and is offered as `other`",
    ),
    "wrong name": (LOSS.replace('"mine"', '"Mine 2"'), "the loss is called 'Mine 2'"),
    "command of core": (
        TARGETS.replace("NAME", "run"),
        "the command `run` is sentbed's own",
    ),
    "table of core": (
        TARGETS.replace('"extra"', '"stage"').replace("NAME", "x"),
        "the recipe table `stage` is sentbed's own",
    ),
}


@pytest.mark.parametrize("fault", FAULTY_PLUGINS)
def test_a_faulty_plugin_is_listed_with_the_reason_and_stops_no_other(
    fault, distribute, tmp_path
):
    source, reason = FAULTY_PLUGINS[fault]
    source += "\n@sentbed.hookimpl\ndef run_started(run):\n    raise AssertionError\n"
    good = LOSS.replace("mine", "good")
    points = distribute("d", {"d_plugin": source, "good_plugin": good})
    plugins = load_plugins(points)

    assert plugins.names("loss") == ["good"]
    assert plugins.manager.hook.run_started(run=None) == []

    lines = listed().splitlines()

    (index,) = [n for n, line in enumerate(lines) if line.startswith("d_plugin")]
    assert lines[index].split() == ["d_plugin", "–", "d", "1.0", "broken"]
    reason = reason.replace("FILE", f"{tmp_path}/site/d_plugin.py")
    assert reason in lines[index + 1]


FAULTY_TARGETS = {
    "raises": ("\n1 / 0", "ZeroDivisionError: division by zero @ FILE:2"),
    "exits": ("raise SystemExit(3)", "SystemExit: 3 @ FILE:1"),
    "import fails": ("import nowhere", "No module named 'nowhere' @ FILE:1"),
    "not there": ("Mien = 1", "module 'lazy_module' has no attribute"),
    "no class": ("Mine = Extra = greet = 1", "found 1, expected a"),
}


@pytest.mark.parametrize("fault", FAULTY_TARGETS)
def test_a_target_that_cannot_be_imported_stops_only_who_uses_it(
    fault, with_targets, toy_points, put, tmp_path
):
    source, reason = FAULTY_TARGETS[fault]
    reason = reason.replace("FILE", f"{tmp_path}/site/lazy_module.py")
    plugins = load_plugins([*toy_points, *with_targets("lazy", source)])

    load_recipe(put("good.toml", RECIPE), plugins=plugins)
    bad = RECIPE.replace('use = "pull"', 'use = "mine"') + "\n[extra]\n"
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("bad.toml", bad), plugins=plugins)

    loss, table = sorted(caught.value.problems, key=lambda problem: -len(problem.path))
    assert loss.path.endswith("loss.use")
    assert loss.message.startswith("the loss `mine` of `lazy-dist 1.0`")
    assert table.path == "extra"
    assert table.message.startswith("the recipe table `extra` of `lazy-dist 1.0`")
    assert reason in loss.message
    assert reason in table.message

    result = CliRunner().invoke(cli.main, ["lazy"])
    assert result.exit_code == 1
    assert reason in result.output
    assert CliRunner().invoke(cli.main, ["--help"]).exit_code == 0


def test_ctrl_c_while_a_plugin_is_imported_is_no_fault_of_the_plugin(
    distribute, with_targets
):
    with pytest.raises(KeyboardInterrupt):
        load_plugins(distribute("slow", {"slow_plugin": "raise KeyboardInterrupt"}))
    with pytest.raises(KeyboardInterrupt):
        load_plugins(with_targets("lazy", "raise KeyboardInterrupt")).load(
            "loss", "mine"
        )


def test_a_disabled_plugin_is_not_even_imported(distribute, monkeypatch):
    distribute("off-dist", {"off_plugin": "raise AssertionError('imported')"})
    monkeypatch.setenv("SENTBED_PLUGINS_DISABLE", "not-there, off-dist")

    output = listed()
    assert ["off_plugin", "–", "off-dist", "1.0", "disabled"] in rows(output)
    assert "take it out of the environment variable `SENTBED_PLUGINS_DISABLE`" in output


# --- several of one name -----------------------------------------------------------------------------------


@pytest.fixture
def two(with_targets, toy_points):
    """Two distributions that offer the loss `mine`, the command `greet` and the table `[extra]`."""
    points = [*with_targets("one", MODULE), *with_targets("two", MODULE)]
    return load_plugins([*toy_points, *points])


def test_of_two_that_claim_a_name_a_recipe_chooses_one_with_its_distribution(two, put):
    assert "mine" not in two.names("loss")
    recipe = RECIPE.replace('use = "pull"', 'use = "mine"')
    with pytest.raises(RecipeError) as caught:
        load_recipe(put("both.toml", recipe + "\n[extra]\n"), plugins=two)
    messages = [problem.message for problem in caught.value.problems]
    for kind, name in (("loss", "mine"), ("recipe table", "extra")):
        message = (
            f"the {kind} `{name}` is offered by `one-dist 1.0` and by `two-dist 1.0`; write "
            f"`one-dist:{name}`, or uninstall all but one"
        )
        assert message in messages

    qualified = recipe.replace('"mine"', '"two-dist:mine"')
    loaded = load_recipe(put("two.toml", qualified), plugins=two)
    cls = type(loaded.stage[0].loss)
    assert cls.__module__ == "two_module"
    assert two.origin(cls).distribution == "two-dist"

    again = load_recipe(put("resolved.toml", resolved_toml(loaded)), plugins=two)
    assert again.stage[0].loss == loaded.stage[0].loss


def test_the_resolved_recipe_is_the_same_with_a_needless_distribution(put, plugins):
    plain = resolved_toml(load_recipe(put("plain.toml", RECIPE), plugins=plugins))
    qualified = RECIPE.replace('use = "pull"', 'use = "toy:pull"')
    loaded = load_recipe(put("qualified.toml", qualified), plugins=plugins)
    assert resolved_toml(loaded) == plain


def test_a_name_that_two_claim_is_listed_and_their_other_commands_run(two):
    assert "the loss `mine` is offered by `one-dist 1.0` and by" in listed()
    result = CliRunner().invoke(cli.main, ["greet"])
    assert result.exit_code == 2
    assert "the command `greet` is offered by `one-dist 1.0` and by" in result.output
    for name in ("one", "two"):
        assert CliRunner().invoke(cli.main, [name]).output == "hello\n"


# --- names that nobody offers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("data", "word", "there is no data `word`. Did you mean `words`?"),
        ("data", "zzz", "no data `zzz`. Choose one of `lines`, `table`, `words`."),
        ("pooler", "mean", "`sentbed-poolers`, which is not installed: `pip install"),
        ("command", "study", "`sentbed-studies`, which is not installed: `pip install"),
        ("recipe table", "study", "which is not installed: `pip install"),
        ("command", "chek", "there is no command `chek`. Did you mean `check`?"),
    ],
)
def test_the_error_for_a_name_that_nobody_offers_says_what_to_do(
    kind, name, message, plugins
):
    with pytest.raises(PluginError, match=re.escape(message)):
        plugins.load(kind, name)


def test_the_error_names_plugins_that_are_not_loaded(distribute):
    points = distribute("sentbed-poolers", {"d_plugin": "raise ValueError('too old')"})
    message = "The plugin `sentbed-poolers:d_plugin` is broken: ValueError: too old"
    with pytest.raises(PluginError, match=message):
        load_plugins(points).load("pooler", "mean")
