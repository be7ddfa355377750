"""What `sentbed new plugin` writes; `tests/test_scaffold_alone.py` installs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner
from sentbed._cli import main as cli
from sentbed.kinds import KINDS
from sentbed_workbench.scaffold import write_plugin
from toy_fixtures import write_distribution

ROOT = Path(__file__).parents[3]


def new(*words):
    return CliRunner().invoke(cli.main, ["new", "plugin", *map(str, words)])


def run(*words, cwd):
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(("src", "site"))},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A directory with a plugin of each kind, `KIND/`."""
    root = tmp_path_factory.mktemp("plugins")
    for kind in KINDS:
        write_plugin(kind, f"my-{kind}", root / kind)
    return root


@pytest.mark.parametrize("kind", KINDS)
def test_a_distribution_is_complete_and_no_word_of_a_template_is_left(kind, written):
    project = tomli.loads((written / kind / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"sentbed-my-{kind}"
    assert project["entry-points"]["sentbed"] == {f"my-{kind}": f"sentbed_my_{kind}"}
    package = written / kind / "src" / f"sentbed_my_{kind}"
    assert f"def {KINDS[kind].hook}()" in (package / "__init__.py").read_text()
    files = [path for path in (written / kind).rglob("*") if path.is_file()]
    assert len(files) > 6
    for path in files:
        text = f"{path.relative_to(written)}\n{path.read_text()}"
        for word in ("new-name", "new_name", "NewName", "-tpl", "{kind}", "{methods}"):
            assert word not in text


def test_torch_is_pinned_as_it_is_here(written):
    ours = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    (pinned,) = [line for line in ours if line.startswith("torch==")]
    for kind in KINDS:
        assert pinned in (written / kind / "constraints.txt").read_text().splitlines()


def test_the_code_passes_ruff(written):
    for kind in KINDS:
        run(
            "ruff",
            "check",
            "--no-cache",
            "--extend-select",
            "E",
            ".",
            cwd=written / kind,
        )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass(kind, written):
    # As `pip install` would leave it.
    write_distribution(
        written / kind / "site",
        f"sentbed-my-{kind}",
        {f"my-{kind}": f"sentbed_my_{kind}"},
    )
    run("pytest", "-q", "-p", "no:cacheprovider", cwd=written / kind)


def test_the_files_and_the_next_commands_are_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = new("loss", "far")
    assert done.exit_code == 0
    files, _, commands = done.stdout.partition("\n\nThen:\n")
    assert sorted(files.splitlines()) == sorted(
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file()
    )
    assert commands.splitlines() == [
        "  pip install -c sentbed-far/constraints.txt -e 'sentbed-far[test]'",
        "  pytest sentbed-far",
    ]


def test_a_directory_that_exists_is_left_alone(tmp_path):
    done = new("pooler", "late", "--out", tmp_path)
    assert (done.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "exists already; name a new directory with `--out`" in done.stderr


def test_a_recipe_is_written_to_a_new_file_only(tmp_path):
    path = tmp_path / "mine.toml"
    arguments = ["new", "recipe", str(path)]
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 0

    written = path.read_text()
    done = CliRunner().invoke(cli.main, arguments)
    assert done.exit_code == 1
    assert "exists already; choose another name" in done.stderr
    assert path.read_text() == written


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        ("poler", "mine", "Did you mean `pooler`?"),
        ("pooler", "2mean", "'2mean' cannot be the name of a component"),
        ("pooler", "mean", "the pooler `mean` is offered by `sentbed-poolers "),
        ("backbone", "losses", "there is a distribution `sentbed-losses` already"),
        ("pooler", "class", "`class` is a word of Python"),
    ],
)
def test_other_kinds_and_names_are_refused(kind, name, reason, tmp_path):
    done = new(kind, name, "--out", tmp_path / "new")
    assert done.exit_code != 0
    assert reason in done.stderr
    assert not (tmp_path / "new").exists()
