from __future__ import annotations

import os
import re
import tomllib
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest
import sentbed_data
from sentbed._registry.registry import load_plugins
from sentbed_common import Finding
from sentbed_data import doctor
from sentbed_data.find_collections import collections, inspect_collection

EXTRAS = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())[
    "project"
]["optional-dependencies"]


def names(requirements):
    return [re.split(r"[^\w-]", requirement)[0] for requirement in requirements]


@pytest.fixture
def ours():
    """This distribution alone."""
    return load_plugins([EntryPoint("data", "sentbed_data", "sentbed")])


def test_the_hook_returns_findings_every_time_that_it_is_called(ours):
    first, second = sentbed_data.findings(ours), sentbed_data.findings(ours)
    assert first == second
    assert {finding.area for finding in first} == {"data"}


def test_every_extra_is_looked_at_with_the_package_that_it_brings():
    looked_at = {extra: package for extra, (_, package) in doctor.EXTRAS.items()}
    # What an extra names besides comes with that package.
    assert looked_at == {
        extra: names(requirements)[0] for extra, requirements in EXTRAS.items()
    }


def test_a_package_is_found_with_its_version_or_named_with_its_extra(ours, monkeypatch):
    pytest.importorskip("pyarrow", reason="needs the extra `parquet`")
    arrow = Finding("data", "Parquet files", "yes", f"pyarrow {version('pyarrow')}")
    assert arrow in sentbed_data.findings(ours)
    monkeypatch.setattr("sentbed_common.doctor_findings.version_of", lambda _: None)
    findings = {finding.what: finding for finding in doctor.library_findings()}
    assert {finding.status for finding in findings.values()} == {"no"}
    assert findings["hub data sets"].remedy == "`pip install 'sentbed-data[hub]'`"


KNOWN = """import sentbed
from sentbed_common import KnownData, KnownFile

@sentbed.hookimpl
def known_data():
    def known(name, *files):
        return KnownData(name, "Something.", (name,), files, "http://localhost")
    return [
        known("whole", KnownFile("a.txt", rows=1000)),
        known("half", KnownFile("a.txt"), KnownFile("b.txt")),
        known("none", KnownFile("a.txt")),
    ]
"""


def test_known_data_is_complete_where_all_files_are_there(
    distribute,
    put,
    monkeypatch,
):
    put("data/whole/a.txt", "a row\n")
    monkeypatch.setenv(
        "SENTBED_DATA", str(Path(put("data/half/b.txt", "a row\n")).parent.parent)
    )
    plugins = load_plugins(distribute("made-up", {"knows": KNOWN}))
    (finding,) = doctor.collection_findings(plugins)
    assert (finding.area, finding.what) == ("data", "known data")
    assert (finding.status, finding.detail) == (
        "limited",
        "complete: whole; incomplete: half; missing: none",
    )
    assert "sentbed data get NAME" in finding.remedy
    # Rows are not counted: that is what `sentbed data list` is for.
    assert (
        inspect_collection(
            collections(plugins)["whole"], Path(os.environ["SENTBED_DATA"])
        ).state
        == "wrong row count"
    )
