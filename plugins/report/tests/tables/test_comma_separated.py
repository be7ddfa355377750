from __future__ import annotations

import csv
import io
import math

import attrs
import pytest
from sentbed_report.tables.column import AVERAGE, Column
from sentbed_report.tables.comma_separated import csv_text, to_csv
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Row, Table


def lines_of(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_each_number_has_mean_deviation_seeds_test_and_published_number(results):
    tables = [attrs.evolve(results, name="one"), attrs.evolve(results, name="two")]
    lines = lines_of(to_csv(tables))
    assert [line["table"] for line in lines] == ["one"] * 9 + ["two"] * 9
    assert [line["task"] for line in lines[:3]] == ["MR", "CR", AVERAGE]
    first, mean = lines[0], lines[3]
    assert (first["cell"], first["encoder"], first["status"], first["pooler"]) == (
        *("first", "en", "finished", "first"),
    )
    assert (first["mean"], first["seeds"], first["corrected p"]) == ("50.5", "2", "")
    assert float(mean["std"]) == pytest.approx(math.sqrt(2))
    assert float(mean["difference"]) == 30.5
    assert 0 < float(mean["corrected p"]) < 0.05
    assert (mean["published"], first["published"]) == ("81.05", "")
    # Nothing has a rank or an interval here.
    assert {"rank", "low"}.isdisjoint(first)


def test_an_average_over_a_part_of_the_row_says_so():
    column = Column(AVERAGE, "accuracy", part="2 of 4", heading="Avg (2 of 4)")
    table = Table(
        "t", (Header("cell"),), (column,), (Row(("a",), (Estimate(value=1.0),)),)
    )
    assert lines_of(to_csv([table]))[0]["task"] == "AVG (2 of 4)"


def test_rows_of_published_systems_are_lines_like_others():
    rows = (
        Row(("a",), (Estimate(value=1.0),)),
        Row(("BERT",), (Estimate(value=2.0),), is_reference=True),
    )
    table = Table("t", (Header("cell"),), (Column("MR"),), rows)
    assert [line["mean"] for line in lines_of(to_csv([table]))] == ["1.0", "2.0"]


def test_what_is_not_finite_is_nan_and_what_was_not_measured_is_empty():
    not_finite = Estimate({1: math.nan, 2: 1.0})
    rows = (Row(("a",), (not_finite,)), Row(("b",), (Estimate(),)))
    first, second = lines_of(
        to_csv([Table("t", (Header("cell"),), (Column("MR"),), rows)])
    )
    assert [first[name] for name in ("mean", "std", "seeds")] == [
        "nan",
        "nan",
        "2",
    ]
    assert [second[name] for name in ("mean", "std", "seeds")] == ["", "", "0"]


@pytest.mark.parametrize("sign", list("=+-@\t\r"))
def test_no_text_is_a_formula(sign):
    text = f"{sign}cmd|' /C calc'!A0"
    harmless = f"'{text}".replace("\r", "\n")
    column = Column(text, text, group=text)
    rows = (
        Row((text,), (Estimate(value=-50.0), text)),
        Row(("-0.5",), (Estimate(), None)),
    )
    table = Table(text, (Header(text),), (column, Column("word")), rows, name=text)
    for written in (
        to_csv([table]),
        csv_text([[text], [-50.0, "-0.5"]]),
    ):
        cells = {
            cell for row in csv.reader(io.StringIO(written, newline="")) for cell in row
        }
        # Numbers are what they are, also those that are labels.
        assert {cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))} == {
            "-50.0",
            "-0.5",
        }
        assert harmless in cells
