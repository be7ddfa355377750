from __future__ import annotations

import subprocess
from importlib.metadata import version

import pytest
from sentbed._registry.registry import load_plugins
from sentbed._run.manifest import describe


def test_every_installed_library_has_its_version():
    libraries = describe(load_plugins(), None)["libraries"]
    for name in ("attrs", "cattrs", "click", "numpy", "pluggy", "tomli"):
        assert libraries[name] == version(name)


def test_plugins_stand_with_version_and_status(distribute):
    modules = {"a_plugin": "", "b_plugin": "raise ValueError"}
    description = describe(load_plugins(distribute("some-dist", modules)), None)
    about = [(p["name"], p["version"], p["status"]) for p in description["plugins"]]
    assert about == [("a_plugin", "1.0", "loaded"), ("b_plugin", "1.0", "broken")]
    assert [bool(p["reason"]) for p in description["plugins"]] == [False, True]


@pytest.fixture
def repository(tmp_path):
    """The directory of a git repository with one commit, of `r.toml`."""
    git = [
        "git",
        "-C",
        str(tmp_path),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
    ]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "r.toml").write_text("schema = 1")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    return tmp_path


def test_the_commit_of_the_recipes_directory_says_whether_there_are_changes(repository):
    commit = describe(load_plugins(), repository)["git"]
    assert len(commit) == 40
    (repository / "r.toml").write_text("schema = 2")
    assert describe(load_plugins(), repository)["git"] == f"{commit}-dirty"


def test_a_directory_outside_a_repository_has_no_commit(tmp_path):
    assert describe(load_plugins(), tmp_path)["git"] is None
