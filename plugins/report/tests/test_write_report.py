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


def test_text_that_is_no_unicode_is_written(tmp_path):
    name = b"caf\xe9".decode("utf-8", "surrogateescape") + " \x00 日本語 $"
    data = attrs.evolve(EMPTY, name=name, error=name)
    write_report(tmp_path, data)
    assert (
        json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["name"]
        == name
    )
    assert "日本語" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_numbers_are_on_disk_when_a_figure_fails(tmp_path):
    points = Scatter("t", "x", "y", [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="same size"):
        write_report(tmp_path, attrs.evolve(full(), scatters=(("encoder", points),)))
    assert json.loads((tmp_path / "report.json").read_text())["scores"]


def test_a_place_that_cannot_be_written_is_a_run_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError):
        write_report(tmp_path / "file", EMPTY)
