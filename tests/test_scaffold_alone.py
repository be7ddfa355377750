"""A stranger's plugins, in a clean environment: what `sentbed new plugin` writes, and `examples/`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import tomli
from clean_environment import Environment
from click.testing import CliRunner
from sentbed._cli.main import main

pytestmark = pytest.mark.alone

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))

DISTRIBUTIONS = [
    "core",
    *sorted(str(path.parent) for path in ROOT.glob("plugins/*/pyproject.toml")),
]

BUILDING = ("hatchling", "editables")
"""What pip would fetch for each plugin anew."""

SHORT = (
    "stage.0.epochs=",
    "stage.0.steps=2",
    "stage.0.batch_size=16",
    "stage.0.validate=",
    'evaluate.0.at=["end"]',
)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """`sentbed[standard]` from local wheels, and the conformance kit; nothing in editable form."""
    environment = Environment.make(tmp_path_factory.mktemp("clean"))
    wheels = tmp_path_factory.mktemp("wheels")
    environment.install(*BUILDING)
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", wheels)
    distributions = [ROOT / directory for directory in DISTRIBUTIONS]
    environment.pip("wheel", *options, *distributions)
    options = ("-c", "requirements/constraints.txt", "--find-links", wheels)
    environment.install(
        *options, "sentbed[demo,standard]==0.1.0", "sentbed-testing==0.1.0"
    )
    return environment


def commands_of(printed):
    """Return the words of each command that a scaffold prints; below them there may be a remark."""
    commands = printed.partition("\nThen:\n")[2].partition("\n\n")[0]
    return [shlex.split(line) for line in commands.splitlines()]


def commands_in(text):
    """Return the names of the commands in what `sentbed --help` prints."""
    lines = text.partition("Commands:")[2].splitlines()
    return [line.split()[0] for line in lines if re.match(r"  \S", line)]


def test_standard_and_the_kit_have_every_command(clean, tmp_path):
    # Here, all distributions are installed.
    commands = commands_in(CliRunner().invoke(main, ["--help"]).output)
    assert commands_in(clean.call("sentbed", "--help", cwd=tmp_path)) == commands
    for command in commands:
        text = clean.call("sentbed", command, "--help", cwd=tmp_path)
        assert text.startswith("Usage:"), command


@pytest.mark.parametrize("kind", ["pooler", "schedule"])
def test_a_scaffold_installs_and_passes_its_tests(kind, clean, tmp_path):
    name = f"my-{kind}"
    printed = clean.call("sentbed", "new", "plugin", kind, name, cwd=tmp_path)
    install, test = commands_of(printed)

    assert install[:2] == ["pip", "install"]
    clean.install("--no-build-isolation", *install[2:], cwd=tmp_path)
    described = clean.call("sentbed", "show", kind, name, cwd=tmp_path)
    assert f"sentbed-{name}" in described
    clean.call(*test, "-q", cwd=tmp_path)


def test_a_run_uses_a_pooler_of_a_scaffold(clean, tmp_path):
    clean.call("sentbed", "new", "plugin", "pooler", "later", cwd=tmp_path)
    clean.install("--no-build-isolation", "-e", "sentbed-later", cwd=tmp_path)
    clean.call("sentbed", "new", "recipe", "mine.toml", cwd=tmp_path)
    short = [word for setting in SHORT for word in ("--set", setting)]
    pooler = ("--set", "encoder.pooler.use=later", "--out", "run")
    clean.call("sentbed", "run", "mine.toml", *short, *pooler, cwd=tmp_path)
    recipe = tomli.loads((tmp_path / "run" / "resolved.toml").read_text("utf-8"))
    assert recipe["encoder"]["pooler"]["use"] == "later"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_installs_and_its_tests_pass(example, clean, tmp_path):
    clean.install("--no-build-isolation", f"{example}[test]")
    clean.call(
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=",
        example,
        cwd=tmp_path,
    )


def test_there_is_an_example():
    assert [path.name for path in EXAMPLES] == ["sentbed-attention", "sentbed-cost"]
