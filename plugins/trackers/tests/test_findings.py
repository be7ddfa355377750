from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import sentbed_trackers
from sentbed_common import Finding
from sentbed_testing import offered
from sentbed_trackers import PACKAGES

EXTRAS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())[
    "project"
]["optional-dependencies"]


def names(requirements):
    return [re.split(r"[^\w-]", requirement)[0] for requirement in requirements]


def test_the_hook_returns_findings_every_time_that_it_is_called():
    first, second = sentbed_trackers.findings(), sentbed_trackers.findings()
    assert first == second
    assert {finding.area for finding in first} == {"trackers"}


def test_every_tracker_is_looked_at_with_the_packages_of_its_extra():
    assert {name: list(packages) for name, packages in PACKAGES.items()} == {
        extra: names(requirements) for extra, requirements in EXTRAS.items()
    }
    assert sorted(PACKAGES) == sorted(
        tracker.name for tracker in offered(sentbed_trackers.trackers())
    )


def test_a_library_is_found_with_its_version_or_named_with_its_extra(
    monkeypatch,
):
    pytest.importorskip("tensorboard", reason="needs the extra `tensorboard`")
    assert (
        Finding("trackers", "tensorboard", "yes", version("tensorboard"))
        in sentbed_trackers.findings()
    )
    monkeypatch.setattr(
        "sentbed_common.doctor_findings.version_of", {"sqlalchemy": "2.0"}.get
    )
    _, mlflow = sentbed_trackers.findings()
    assert mlflow.detail == "sqlalchemy 2.0; mlflow-skinny, alembic not installed"
    assert mlflow.remedy == "`pip install 'sentbed-trackers[mlflow]'`"
