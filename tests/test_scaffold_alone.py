"""A stranger's plugins, in a clean environment: what `sentbed new plugin` writes, and `examples/`."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import venv
from functools import reduce
from pathlib import Path

import attrs
import pytest
import tomli
from click.testing import CliRunner
from run_logs import finished_steps
from sentbed._cli.main import main
from sentbed_workbench.scaffold import TEMPLATES

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

PLACES = {
    "backbone": ("encoder", "backbone"),
    "intervention": ("encoder", "backbone", "intervention"),
    "pooler": ("encoder", "pooler"),
    "similarity": ("encoder", "similarity"),
    "transform": ("encoder", "head", "transform"),
    "loss": ("stage", 0, "loss"),
    "data": ("stage", 0, "data"),
    "evaluator": ("evaluate", 0),
    "runtime": ("runtime",),
    "optimizer": ("stage", 0, "optimizer"),
    "schedule": ("stage", 0, "schedule"),
    "tracker": ("tracker", 0),
}
"""Where the recipe says which component of a kind is used."""


@attrs.frozen
class Environment:
    """A virtual environment."""

    root: Path

    def call(self, *words, cwd):
        """Run a command in it; returns what it prints."""
        binaries = self.root / ("Scripts" if sys.platform == "win32" else "bin")
        environment = {
            **os.environ,
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        }
        environment.pop("PYTHONPATH", None)
        program, *arguments = map(str, words)
        done = subprocess.run(
            [binaries / program, *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *what, cwd=ROOT):
        """Install with pip; most of torch and transformers is never imported, and need not be compiled."""
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        self.call("python", "-m", "pip", "install", *options, *what, cwd=cwd)


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """`sentbed[standard]` from local wheels, and the conformance kit; nothing in editable form."""
    environment = Environment(tmp_path_factory.mktemp("clean"))
    venv.create(environment.root, with_pip=True)
    wheels = tmp_path_factory.mktemp("wheels")
    quiet = ("--quiet", "--disable-pip-version-check")
    environment.call("python", "-m", "pip", "install", *quiet, *BUILDING, cwd=ROOT)
    build = (
        "wheel",
        *quiet,
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        wheels,
    )
    environment.call(
        "python",
        "-m",
        "pip",
        *build,
        *(ROOT / directory for directory in DISTRIBUTIONS),
        cwd=ROOT,
    )
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


@pytest.mark.parametrize("kind", [kind for kind in TEMPLATES if kind not in PLACES])
def test_a_scaffold_that_no_recipe_names_installs_and_passes_its_tests(
    kind, clean, tmp_path
):
    printed = clean.call("sentbed", "new", "plugin", kind, f"my-{kind}", cwd=tmp_path)
    install, test, _ = commands_of(printed)
    clean.install("--no-build-isolation", *install[2:], cwd=tmp_path)
    clean.call(*test, "-q", cwd=tmp_path)


@pytest.mark.parametrize("kind", PLACES)
def test_the_commands_that_a_scaffold_prints_lead_to_a_run_that_uses_it(
    kind, clean, tmp_path
):
    name = f"my-{kind}"
    printed = clean.call("sentbed", "new", "plugin", kind, name, cwd=tmp_path)
    install, test, recipe, run = commands_of(printed)

    assert install[:2] == ["pip", "install"]
    clean.install("--no-build-isolation", *install[2:], cwd=tmp_path)
    listed = clean.call("sentbed", "plugins", cwd=tmp_path)
    assert f"{kind} {name} sentbed-{name}" in " ".join(listed.split())
    clean.call(*test, "-q", cwd=tmp_path)

    short = [word for setting in SHORT for word in ("--set", setting)]
    directory = tmp_path / "run"
    clean.call(*recipe, cwd=tmp_path)
    clean.call(*run, *short, "--out", directory, cwd=tmp_path)
    require_used(kind, name, directory)


def require_used(kind, name, directory):
    """Assert that a run had this component: its recipe says so, and so does what it left."""
    recipe = tomli.loads((directory / "resolved.toml").read_text("utf-8"))
    assert reduce(lambda place, key: place[key], PLACES[kind], recipe)["use"] == name
    manifest = json.loads((directory / "manifest.json").read_text("utf-8"))
    distributions = {
        plugin["distribution"]: plugin["version"] for plugin in manifest["plugins"]
    }
    assert distributions[f"sentbed-{name}"] == "0.1.0"
    scores = json.loads((directory / "report.json").read_text("utf-8"))["scores"]
    steps = finished_steps(directory)
    assert len(steps) == 2
    match kind:
        case "backbone":
            assert manifest["weights"]["encoder"] == {"init": "random"}
        case "pooler":
            assert {
                score["protocol"]["encoder"]["pooler"]["test"] for score in scores
            } == {name}
        case "transform":
            assert {
                score["protocol"]["encoder"]["transform"]["use"] for score in scores
            } == {name}
        case "loss":
            assert all("violations" in step["metrics"] for step in steps)
        case "data":
            # Of the 252 pairs of the file, 84 have a score of 4 or 5.
            assert manifest["data"]["triplets"]["rows"] == 84
        case "evaluator":
            of_it = [score["metric"] for score in scores if score["evaluator"] == name]
            assert of_it == ["accuracy", "mrr"]
        case "runtime":
            facts = manifest["engine"]
            assert (facts["runtime"], facts["threads"], facts["deterministic"]) == (
                name,
                1,
                True,
            )
        case "tracker":
            table = (directory / "losses.csv").read_text("utf-8").splitlines()
            assert [row.split(",")[1] for row in table] == ["step", "1", "2"]


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
