"""`sentbed table --axes A,B`: the labels of one axis across, those of another down."""

from __future__ import annotations

from itertools import product

import pytest
from click.testing import CliRunner
from sentbed._cli.main import main
from sentbed.errors import RunError
from sentbed_report.selected_tables import pivoted
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.latex import to_latex

POOLER = AxisInfo("pooler", ("first", "mean"))
LOSS = AxisInfo("loss", ("ctr", "cls"))
SIZE = AxisInfo("size", ("small", "large"))


def summary_of(study_of, *axes, missing=""):
    """A study of all combinations, whose scores are 1, 2, 3, ..."""
    numbers = {}
    for score, labels in enumerate(product(*(axis.labels for axis in axes)), 1):
        if ", ".join(labels) != missing:
            numbers[", ".join(labels)] = {1: {"MR": float(score), "CR": float(score)}}

    (summary,) = summarise(study_of(numbers, axes))
    return summary


def value_of(cell):
    return cell.value if isinstance(cell, Estimate) else None


def values(cells):
    return [value_of(cell) for cell in cells]


def test_labels_of_one_axis_stand_across_and_of_the_other_down(study_of):
    summary = summary_of(study_of, POOLER, LOSS)
    table = pivoted(summary, ["pooler", "loss"])
    assert table.title == "toy: transfer (accuracy; p), Avg"
    assert [(column.group, column.heading) for column in table.columns] == [
        ("loss", "ctr"),
        ("loss", "cls"),
    ]
    assert [(row.headers, values(row.cells)) for row in table.rows] == [
        (("first",), [1.0, 2.0]),
        (("mean",), [3.0, 4.0]),
    ]
    turned = pivoted(summary, ["loss", "pooler"])
    assert [(row.headers, values(row.cells)) for row in turned.rows] == [
        (("ctr",), [1.0, 3.0]),
        (("cls",), [2.0, 4.0]),
    ]
    latex = to_latex(table)
    assert r"\multicolumn{4}{c}{loss}" in latex
    assert "Bold: the best; underlined: the second best." in latex


def test_further_axes_stand_beside_and_cells_that_are_not_there_are_gaps(study_of):
    table = pivoted(
        summary_of(study_of, POOLER, LOSS, SIZE, missing="mean, cls, large"),
        ["pooler", "loss"],
    )
    assert [header.name for header in table.headers] == ["pooler", "size"]
    assert [(row.headers, values(row.cells)) for row in table.rows] == [
        (("first", "small"), [1.0, 3.0]),
        (("first", "large"), [2.0, 4.0]),
        (("mean", "small"), [5.0, 7.0]),
        (("mean", "large"), [6.0, None]),
    ]


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (["poler", "loss"], r"the study has no axis `poler`.*`pooler`"),
        (["pooler", "pooler"], "`pooler` cannot stand on both sides; name two axes"),
    ],
)
def test_other_axes_are_refused(study_of, axes, message):
    with pytest.raises(RunError, match=message):
        pivoted(summary_of(study_of, POOLER, LOSS), axes)


def table(directory, *options):
    return CliRunner().invoke(main, ["table", str(directory), *options])


def test_the_command_prints_the_table_of_two_axes(write_study):
    directory = write_study("grid", (POOLER, LOSS), (0.5,) * 4)
    text = table(directory, "--axes", "pooler, loss")
    assert text.exit_code == 0, text.output
    assert [line.split()[0] for line in text.output.splitlines()[1:4]] == [
        "pooler",
        "first",
        "mean",
    ]
    assert text.output.splitlines()[1].split() == ["pooler", "ctr", "cls"]
    lines = table(directory, "--axes", "pooler,loss", "--format", "csv").output
    header, *values = lines.splitlines()
    assert header.startswith("table,cell,encoder,status,pooler,loss,task,")
    assert len(set(values)) == 4
    one_axis = table(directory, "--axes", "pooler")
    assert one_axis.exit_code == 2
    assert "`--axes` takes two axes" in one_axis.output
    assert "no axis `los`" in table(directory, "--axes", "pooler,los").output
