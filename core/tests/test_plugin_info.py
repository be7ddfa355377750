from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest
from sentbed import PluginError, RecipeError, load_recipe
from sentbed._registry.registry import load_plugins

PLUGIN = """
import sentbed
from sentbed.protocols import Lazy

@sentbed.hookimpl
def losses():
    return {"good": Lazy("lazy_good:Good", "A good loss."), "bad": Lazy("lazy_bad:Bad", "A bad loss.")}

@sentbed.hookimpl
def recipe_tables():
    return {"extra": Lazy("lazy_bad:Table", "A bad table.")}
"""

GOOD = '''
from typing import ClassVar

import attrs
from sentbed.protocols import Loss

@attrs.frozen
class Good(Loss):
    """A good loss, as its class says."""
    name: ClassVar[str] = "good"
    needs = frozenset()
    def build(self, width): ...
'''


@pytest.fixture
def loaded(distribute, monkeypatch):
    """Return a function that installs the plugin with this module for `bad`."""

    def load(bad):
        points = distribute(
            "lazy", {"lazy_plugin": PLUGIN, "lazy_good": GOOD, "lazy_bad": bad}
        )
        return load_plugins([point for point in points if point.name == "lazy_plugin"])

    return load


def test_a_lazy_component_is_listed_without_being_imported(loaded):
    plugins = loaded("raise RuntimeError")
    assert plugins.names("loss") == ["bad", "good"]
    assert [plugin.problem for plugin in plugins.plugins] == [None]
    assert plugins.components["loss", "good"].summary == "A good loss."
    assert plugins.components["loss", "good"].origin == "`lazy` 1.0 (lazy_good)"
    assert not {"lazy_good", "lazy_bad"} & sys.modules.keys()


def test_a_lazy_component_is_imported_when_it_is_found(loaded):
    plugins = loaded("raise RuntimeError")
    info = plugins.find("loss", "good")
    assert info.cls.__qualname__ == "Good"
    assert plugins.origin(info.cls) is info
    assert [component.name for component in plugins.importable("loss")] == ["good"]


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (
            "import a_module_that_is_not_there",
            "cannot be imported from `lazy_bad:Bad`: ModuleNotFoundError: No module named "
            "'a_module_that_is_not_there' @ {file}:1",
        ),
        (
            "\nraise SystemExit(3)",
            "cannot be imported from `lazy_bad:Bad`: SystemExit: 3 @ {file}:2",
        ),
        (
            "Bat = 1",
            "cannot be imported from `lazy_bad:Bad`: AttributeError: module 'lazy_bad' has no "
            "attribute 'Bad' @ {file}",
        ),
        (
            "Bad = 1",
            ", `lazy_bad:Bad`: the loss `1` must be an attrs class with `name: ClassVar[str]`",
        ),
        (
            "from lazy_good import Good as Bad",
            ", `lazy_bad:Bad`: the loss `Good` is called `good`, and offered as `bad`; name it once",
        ),
    ],
)
def test_a_fault_of_a_lazy_component_is_an_error_where_it_is_used(
    bad, problem, loaded, tmp_path
):
    plugins = loaded(bad)
    with pytest.raises(PluginError) as caught:
        plugins.find("loss", "bad")
    message = str(caught.value).removeprefix("the loss `bad` of `lazy` 1.0").lstrip()
    file = tmp_path / "site" / "lazy_bad.py"
    assert (
        message == problem.format(file=file) + "; mend, disable or uninstall the plugin"
    )
    assert plugins.find("loss", "good").cls


def test_ctrl_c_while_a_component_is_imported_is_no_fault_of_it(loaded):
    with pytest.raises(KeyboardInterrupt):
        loaded("raise KeyboardInterrupt").find("loss", "bad")


def test_faults_of_lazy_parts_of_a_recipe_are_told_with_the_others(loaded, tmp_path):
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        "schema = 1\n[encoder]\n[[stage]]\nloss = { use = 'bad' }\n[extra]\nx = 1\n"
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe, plugins=loaded("1 / 0"))
    messages = {
        (problem.line, problem.path): problem.message
        for problem in caught.value.problems
    }
    reason = "ZeroDivisionError: division by zero"
    assert reason in messages[4, "stage.0.loss.use"]
    assert messages[5, "extra"].startswith(
        "the recipe table `extra` of `lazy` 1.0 cannot be imported from"
    )
    assert reason in messages[5, "extra"]
    assert len(messages) > 2


def test_whose_a_class_is_is_found_without_an_import(loaded):
    plugins = loaded("raise RuntimeError")

    class Stranger:
        name = "bad"

    assert plugins.origin(Stranger) is None
    assert "lazy_bad" not in sys.modules


def test_a_submodule_of_a_hooks_name_is_refused_before_it_hides_the_hook(
    tmp_path, monkeypatch
):
    package = tmp_path / "lazy_package"
    package.mkdir()
    source = PLUGIN.replace("lazy_good:Good", "lazy_package.losses:Good")
    (package / "__init__.py").write_text(source)
    (package / "losses.py").write_text(GOOD)
    monkeypatch.syspath_prepend(str(tmp_path))
    (plugin,) = load_plugins([EntryPoint("lazy", "lazy_package", "sentbed")]).plugins
    assert (
        plugin.problem
        == "its module `losses` hides its hook of that name; rename the module"
    )
