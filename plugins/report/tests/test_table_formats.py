"""What is typed into a task's or an encoder's name stays text in every file of a run's tables."""

from __future__ import annotations

import csv
import io
import re

import pytest
from sentbed.protocols import Score
from sentbed_report.paper_style_tables import Column, PaperTable, paper_tables
from sentbed_report.table_formats import to_csv, to_latex, to_long_csv


def table(task: str) -> PaperTable:
    columns = (Column(task, "acc", (1.5, -2.5)), Column("other", "f1", (None, 3.0)))
    return PaperTable("e", "=p", ("=one", "@two"), columns, ("p",))


@pytest.mark.parametrize("task", ["=1+1", "+1+1", "-1-1", "@SUM(A1)", "\t=1"])
def test_no_text_of_a_csv_file_of_a_run_is_a_formula(task: str) -> None:
    for text in (to_csv(table(task)), to_long_csv([table(task)])):
        rows = list(csv.reader(io.StringIO(text)))
        cells = {cell for row in rows for cell in row}
        assert {cell for cell in cells if cell.startswith(tuple("=+-@\t\r"))} == {"-2.5"}
        assert any(task in cell for cell in cells)


def test_a_name_controls_no_terminal_whatever_the_file() -> None:
    score = Score("\x1b[31mred\x07", "a\x9bcc", 1.0, {"id": "p"})
    assert (score.task, score.metric) == (r"\x1b[31mred\x07", r"a\u009bcc")
    shown = to_latex(table("\x1b]0;title\x07"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert "x1b" in shown


def test_an_average_over_a_part_of_the_row_says_so_in_every_file() -> None:
    scores = [
        (
            "mine",
            Score(task, "acc", value, {"evaluator": {"id": "p"}, "encoder": {}}, "e", "t", skipped=("C",)),
        )
        for task, value in (("A", 1.0), ("B", 3.0))
    ]
    (found,) = paper_tables(scores)
    assert found.headings == ("A", "B", "Avg (2 of 3)")
    assert "without C, whose data is missing" in to_latex(found)
    assert to_csv(found).splitlines()[0] == "encoder,A,B,Avg (2 of 3)"
    assert to_long_csv([found]).splitlines()[-1] == "t,p,mine,AVG (2 of 3),acc,2.0"
