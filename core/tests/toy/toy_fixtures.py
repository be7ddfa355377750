"""Fixtures around the toy plugin, for the tests of core and of every tool."""

from __future__ import annotations

import re
import sys
from importlib.metadata import distribution, distributions

import pytest
import toy_plugin
from hypothesis import settings
from sentbed import Encoder, run
from sentbed._recipe.load import load_recipe
from sentbed._registry.registry import load_plugins

# Tests may share their cores with other work: a slow example is no failure. `make test-slow` tries five times as
# many by `--hypothesis-profile thorough`.
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")


def exactly(message):
    """Return the pattern of a message, for `pytest.raises(..., match=...)`."""
    return rf"\A{re.escape(message)}\Z"


def write_distribution(site, name, points):
    """Write what an installer leaves in `site` of a distribution with these entry points."""
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    )
    lines = "".join(f"{point} = {value}\n" for point, value in points.items())
    (info / "entry_points.txt").write_text(f"[sentbed]\n{lines}")


def points_of(site):
    """Return the entry points of every distribution in `site`."""
    return [
        point
        for distribution in distributions(path=[str(site)])
        for point in distribution.entry_points
    ]


@pytest.fixture
def put(tmp_path):
    """Write a file into the test's directory and return its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def distribute(tmp_path, monkeypatch):
    """Make a distribution out of modules' source; returns the entry points, one a module."""
    site = tmp_path / "site"

    def make(name, modules):
        write_distribution(site, name, {module: module for module in modules})
        for module, source in modules.items():
            (site / f"{module}.py").write_text(source)
            monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.syspath_prepend(str(site))
        return [point for point in points_of(site) if point.name in modules]

    return make


@pytest.fixture(scope="session")
def toy_points(tmp_path_factory):
    """The entry points of the toy plugin, of the prompt `template`, of the console's tracker and of the log's."""
    site = tmp_path_factory.mktemp("site")
    points = {
        "toy": "toy_plugin",
        "recorder": "toy_plugin:Recorder",
        "prompts": "toy_prompts",
    }
    write_distribution(site, "toy", points)
    trackers = distribution("sentbed-trackers").entry_points.select(group="sentbed")
    return [
        *points_of(site),
        *(point for point in trackers if point.name != "trackers"),
    ]


@pytest.fixture
def plugins(toy_points):
    """The toy plugin, console and log, and nothing else that is installed."""
    return load_plugins(toy_points)


@pytest.fixture
def recorder(plugins):
    """The recorder among `plugins`."""
    recorder = plugins.manager.get_plugin("toy:recorder")
    assert isinstance(recorder, toy_plugin.Recorder)
    return recorder


@pytest.fixture
def installed_toy(tmp_path, monkeypatch):
    """Install the toy plugin for this process: entry points are found as those of any distribution."""
    site = tmp_path / "toy-site"
    write_distribution(site, "toy", {"toy": "toy_plugin"})
    monkeypatch.syspath_prepend(str(site))
    return site


@pytest.fixture
def recipe_of(put, plugins):
    """Load a recipe from its text and `PATH=VALUE` overrides, with the toy plugin."""

    def load(text=toy_plugin.RECIPE, *overrides):
        return load_recipe(put("recipe.toml", text), overrides, plugins)

    return load


@pytest.fixture
def out(tmp_path):
    """The directory in which `run_recipe` runs."""
    return tmp_path / "out"


@pytest.fixture
def run_recipe(recipe_of, plugins, tmp_path):
    """Run a recipe of the toy plugin: text and overrides, in `name` of the test's directory."""

    def start(*text_and_overrides, name="out"):
        return run(recipe_of(*text_and_overrides), tmp_path / name, plugins)

    return start


@pytest.fixture
def load_encoder(plugins):
    """Load an encoder of the toy plugin from its directory."""

    def load(directory):
        return Encoder.load(directory, {"use": "toy"}, plugins)

    return load


@pytest.fixture
def study_of():
    """Make a study of given numbers; see `toy_study.study_of`."""
    # It needs sentbed-report, which not every distribution has.
    from toy_study import study_of

    return study_of


@pytest.fixture
def quick(monkeypatch):
    """Let runs leave out what takes time; see `toy_plugin.quicken`."""
    toy_plugin.quicken(monkeypatch)
