"""Each plugin works without its siblings: a clean environment, core, one plugin, its entry point."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def test_there_are_eight_plugins() -> None:
    assert PLUGINS == [
        "backbones",
        "data",
        "evaluators",
        "hardware",
        "interop",
        "losses",
        "poolers",
        "trackers",
    ]


@pytest.mark.alone
@pytest.mark.parametrize("plugin", ["", *PLUGINS])
def test_a_plugin_installs_and_loads_alone(plugin: str, tmp_path: Path) -> None:
    venv.create(tmp_path, with_pip=True)
    binaries = tmp_path / ("Scripts" if sys.platform == "win32" else "bin")
    parts = ["core", *([f"plugins/{plugin}"] if plugin else [])]
    pip = [binaries / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    sources = ["-c", "requirements/constraints.txt", *(f"./{part}" for part in parts)]
    subprocess.run([*pip, *sources], cwd=ROOT, check=True, timeout=900)
    answer = subprocess.run(
        [binaries / "sentbed", "plugins", "--json"], check=True, capture_output=True, text=True, cwd=tmp_path
    )
    listed = json.loads(answer.stdout)
    found = {entry["distribution"] for entry in listed["plugins"]}
    assert found == {"sentbed", *([f"sentbed-{plugin}"] if plugin else [])}
    assert [entry["problem"] for entry in listed["plugins"] if entry["problem"]] == []
    offered = [entry["name"] for entry in listed["components"]]
    assert bool(offered) == bool(plugin)
