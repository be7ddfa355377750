"""The files of a run's report."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.errors import RunError
from sentbed.protocols import Scatter
from sentbed_report.write_report import write_report
from toy_run_report import EMPTY, full


def test_an_empty_run_has_a_report(tmp_path):
    path = write_report(tmp_path / "new", EMPTY)
    assert path == tmp_path / "new" / "report.html"
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "report.html",
        "report.json",
        "report.md",
    ]
    text = path.read_text()
    assert "<section" not in text
    assert "nothing was measured; started 2026-03-04 14:05 UTC" in text


def test_the_numbers_are_on_disk_when_a_figure_fails(tmp_path):
    points = Scatter("t", "x", "y", [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="same size"):
        write_report(tmp_path, attrs.evolve(full(), scatters=(("encoder", points),)))
    assert json.loads((tmp_path / "report.json").read_text())["scores"]


def test_a_place_that_cannot_be_written_is_a_run_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        write_report(tmp_path / "file", EMPTY)
