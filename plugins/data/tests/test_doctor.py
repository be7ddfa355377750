from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import sentbed_data
from sentbed.protocols import Finding
from sentbed_data import doctor

EXTRAS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def names(requirements: list[str]) -> list[str]:
    return [re.split(r"[^\w-]", requirement)[0] for requirement in requirements]


def test_the_hook_returns_findings_every_time_that_it_is_called():
    first, second = sentbed_data.findings(), sentbed_data.findings()
    assert first == second
    assert {finding.area for finding in first} == {"data"}


def test_every_extra_is_looked_at_with_the_package_that_it_brings():
    looked_at = {extra: [package] for extra, (_, package) in doctor.EXTRAS.items()}
    assert looked_at == {extra: names(requirements) for extra, requirements in EXTRAS.items()}


def test_a_package_is_found_with_its_version_or_named_with_its_extra(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    arrow = Finding("data", "Parquet files", "yes", f"pyarrow {version('pyarrow')}")
    assert arrow in sentbed_data.findings()
    monkeypatch.setattr("sentbed._findings.version_of", lambda _: None)
    found = {finding.what: finding for finding in sentbed_data.findings()}
    assert {finding.status for finding in found.values()} == {"no"}
    assert found["hub data sets"].remedy == "`pip install 'sentbed-data[hub]'`"
