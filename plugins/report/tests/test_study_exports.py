"""Files of a study's results: which there are, under which names, and what is in them."""

from __future__ import annotations

import json

import pandas
import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.exports import to_json, write_exports
from sentbed_report.study.measurements import study_frame
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import AxisInfo

NUMBERS = {
    "first": {1: {"MR": 50.0, "CR": 60.0}, 2: {"MR": 51.0, "CR": 61.0}},
    "mean": {1: {"MR": 80.0, "CR": 90.0}, 2: {"MR": 82.0, "CR": 90.0}},
}
EXPECTED = {"Table 1": Published({"mean": {"MR": 81.05, "CR": 90.0, "AVG": 70.0}}, 0.1)}


@pytest.fixture
def data(study_of):
    axis = AxisInfo("pooler", ("first", "mean"))
    excluded = (("x", ("no mask",)),)
    return study_of(
        NUMBERS,
        [axis],
        baseline="first",
        items=True,
        expected=EXPECTED,
        excluded=excluded,
    )


@pytest.fixture
def summary(data):
    (table,) = summarise(data)
    return table


def test_json_has_everything_and_no_numbers_that_are_not_finite(data, summary):
    results = json.loads(to_json(data, [summary]), parse_constant=pytest.fail)

    assert (
        results["study"],
        results["baseline"],
        results["seeds"],
        results["total"],
    ) == (*("toy", "first", [1, 2], 4),)
    assert results["excluded"] == [{"cell": "x", "reasons": ["no mask"]}]
    assert [cell["name"] for cell in results["cells"]] == list(NUMBERS)

    value = results["tables"][0]["rows"][1]["values"][0]

    assert (value["mean"], value["seeds"], value["place"]) == (
        81.0,
        {"1": 80.0, "2": 82.0},
        1,
    )

    judged = summary.rows[1].cells[0].judged

    assert value["against_baseline"]["p_value"] == judged.p_value
    assert value["against_baseline"]["basis"] == "items and seeds"


def test_every_file_is_written(tmp_path, data):
    write_exports(tmp_path, data)

    assert {path.name for path in tmp_path.iterdir()} == {"tables", "results.json"}

    names = {path.name for path in (tmp_path / "tables").iterdir()}

    assert names == {"transfer-p.md", "transfer-p.tex", "scores.csv"}

    written = pandas.read_csv(tmp_path / "tables" / "scores.csv", keep_default_na=False)
    frame = study_frame(data).drop(columns="score")
    frame["pooler"] = frame["pooler"].astype(str)
    pandas.testing.assert_frame_equal(written, frame, check_dtype=False)


def test_names_of_files_are_safe_and_do_not_take_each_others_place(tmp_path, study_of):
    tasks = {"MR": 1.0, "MR/a b": 2.0, "MR/a_b": 3.0, "CR/../x": 4.0}
    write_exports(tmp_path, study_of({"a": {1: tasks}}))

    assert {path.stem for path in (tmp_path / "tables").glob("*.tex")} == {
        "transfer-p",
        "transfer-p-a_b",
        "transfer-p-a_b-2",
    }
    assert "CR (../x)" in (tmp_path / "tables" / "transfer-p.tex").read_text()


def test_a_label_that_begins_a_formula_stays_text(tmp_path, study_of):
    write_exports(
        tmp_path, study_of({"=1+1": {1: {"MR": 4.0}}, "-2": {1: {"MR": 5.0}}})
    )
    lines = (tmp_path / "tables" / "scores.csv").read_text().splitlines()
    assert "'=1+1" in lines[1]
    assert lines[2].startswith("-2,")
