"""What is said in several files is said alike."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import sentbed

ROOT = Path(__file__).parent.parent
DISTRIBUTIONS = [ROOT / "core", *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
FRAGMENT = re.compile(r"\+[a-z-]+\.(\w+)\.md")


def project(directory: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    return table


@pytest.mark.parametrize("directory", DISTRIBUTIONS, ids=lambda path: path.name)
def test_a_distribution_has_the_version_and_the_licence_of_the_project(directory: Path) -> None:
    about = project(directory)
    assert (about["version"], about["license"]) == (sentbed.__version__, "Apache-2.0")
    # A plugin goes with the core of its own version.
    pins = [line for line in about["dependencies"] if line.startswith("sentbed")]
    assert pins == ([] if directory.name == "core" else [f"sentbed=={sentbed.__version__}"])
    assert (directory / "README.md").read_text().startswith(f"# {about['name']}\n")


def test_the_citation_and_the_changelog_speak_of_this_version() -> None:
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (sentbed.__version__, "Apache-2.0")
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    assert tool["version"] == sentbed.__version__
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_every_fragment_of_the_changelog_is_of_a_kind_that_is_printed() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in tool["type"]}
    names = sorted(path.name for path in (ROOT / "changes").iterdir())
    assert names
    found = [FRAGMENT.fullmatch(name) for name in names]
    assert [
        name for name, match in zip(names, found, strict=True) if not match or match[1] not in kinds
    ] == []


SLOW = """
import random, time
import pytest

def busy():
    start = time.process_time()
    while time.process_time() - start < 0.3:
        pass

def test_unmarked(): busy()

@pytest.mark.slow
def test_marked(): busy()

def test_first(): assert random.random() == random.Random(7).random()

def test_second(): assert random.random() == random.Random(7).random()
"""


def test_a_slow_test_without_a_mark_fails_and_each_begins_with_the_seed(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull]
    options = ["-o", "test_seconds=0.2", "--seed", "7", "test_slow.py"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, *options], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert "test_slow.py::test_unmarked" in done.stdout
    assert "without a mark a test may take 0.2 s" in done.stdout
    assert "--seed 7" in done.stdout
