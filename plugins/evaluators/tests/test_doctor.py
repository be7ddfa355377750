from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import sentbed_evaluators
from sentbed_common import Finding
from sentbed_evaluators import doctor

EXTRAS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())[
    "project"
]["optional-dependencies"]


def names(requirements):
    return [re.split(r"[^\w-]", requirement)[0] for requirement in requirements]


def test_the_hook_returns_findings_every_time_that_it_is_called():
    first, second = sentbed_evaluators.findings(), sentbed_evaluators.findings()
    assert first == second
    assert {finding.area for finding in first} == {"evaluators"}


def test_mteb_is_found_with_its_version_or_named_with_its_extra(
    monkeypatch,
):
    assert names(EXTRAS["mteb"])[0] == "mteb"
    # It is not imported, which takes five seconds.
    if find_spec("mteb") is None:
        pytest.skip("needs the extra `mteb`")
    assert (
        Finding("evaluators", "mteb", "yes", version("mteb"))
        in sentbed_evaluators.findings()
    )
    monkeypatch.setattr("sentbed_common.doctor_findings.version_of", lambda _: None)
    classifiers, mteb = sentbed_evaluators.findings()
    assert mteb.remedy == "`pip install 'sentbed-evaluators[mteb]'`"
    assert classifiers.remedy == "`pip install sentbed-evaluators`"


def test_classifiers_have_the_versions_of_their_libraries():
    expected = f"scikit-learn {version('scikit-learn')}, scipy {version('scipy')}"
    assert Finding("evaluators", "classifiers", "yes", expected) in doctor.findings()
