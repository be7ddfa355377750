"""What is said in several files is said alike."""

from __future__ import annotations

import re

import pytest
import sentbed
from distributions import DIRECTORIES, ROOT, WORKSPACE, project


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda path: path.name)
def test_a_distribution_has_the_version_and_the_licence_of_the_project(
    directory,
):
    about = project(directory)
    assert (about["version"], about["license"]) == (sentbed.__version__, "Apache-2.0")
    # A plugin goes with the core of its own version.
    pins = [
        line.partition("==")
        for line in about["dependencies"]
        if line.startswith("sentbed")
    ]
    assert {version for _, _, version in pins} <= {sentbed.__version__}
    assert ("sentbed" in [name for name, _, _ in pins]) == (directory.name != "core")
    assert (directory / "README.md").read_text().startswith(f"# {about['name']}\n")


def test_the_citation_and_the_changelog_speak_of_this_version():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert (citation["version"], citation["license"]) == (
        sentbed.__version__,
        "Apache-2.0",
    )
    tool = WORKSPACE["tool"]["towncrier"]
    assert tool["version"] == sentbed.__version__
    assert "Apache License" in (ROOT / "LICENSE").read_text()


LIGHT = {
    "attrs",
    "cattrs",
    "click",
    "filelock",
    "numpy",
    "pluggy",
    "tomli",
    "tomli-w",
}


def test_core_depends_on_nothing_heavy():
    about = project(ROOT / "core")
    assert {re.split(r"[^a-z-]", line)[0] for line in about["dependencies"]} == LIGHT


def test_standard_is_every_distribution_but_the_conformance_kit_and_runtimes_on_rare_libraries():
    extra = project(ROOT / "core")["optional-dependencies"]["standard"]
    left_out = {
        "sentbed-onnxruntime",
        "sentbed-openvino",
        "sentbed-testing",
        "sentbed-tpu",
    }
    names = {f"sentbed-{path.name}" for path in DIRECTORIES[1:]} - left_out
    assert extra == sorted(f"{name}=={sentbed.__version__}" for name in names)


def circle_contract():
    """The contract of import-linter that forbids circles."""
    contracts = WORKSPACE["tool"]["importlinter"]["contracts"]
    (contract,) = (
        contract for contract in contracts if contract["type"] == "acyclic_siblings"
    )
    return contract


def test_nothing_is_exempt_from_the_contract_against_circles():
    assert "ignore_imports" not in circle_contract()
    packages = set()
    for directory in DIRECTORIES:
        source = directory / "src"
        for path in source.glob("sentbed*"):
            packages.add(path.name)

    assert len(packages) == len(DIRECTORIES)
    assert packages <= set(circle_contract()["ancestors"])
