"""`sentbed table`: runs are rows, tasks columns; of all scores, or of those that one asks for."""

from __future__ import annotations

import attrs
import pytest
from click.testing import CliRunner
from sentbed import RunError
from sentbed._cli.main import main
from sentbed.protocols import Score
from sentbed_report.selected_tables import selected_tables


def score(task, value, encoder="en", metric="accuracy", **entries):
    """Return a score whose evaluator's protocol has these entries."""
    protocol = {"encoder": {}, "evaluator": {"id": "senteval", **entries}}
    return Score(task, metric, value, protocol, encoder, "transfer")


def of_evaluator(evaluator, task, value):
    return attrs.evolve(score(task, value), evaluator=evaluator)


def test_rows_are_runs_or_their_encoders_and_runs_of_several_seeds_are_one_row(
    write_run,
):
    first_run = write_run(
        "a-1", score("MR", 80.0), score("CR", 90.0), pooler={"use": "mean"}
    )
    two = write_run(
        "a-2", score("MR", 82.0), score("CR", 91.0), seed=2, pooler={"use": "mean"}
    )
    other = write_run(
        "b", score("MR", 70.0, "en@start"), score("MR", 60.0), pooler={"use": "first"}
    )
    (table,) = selected_tables([first_run, two, other])
    assert table.headings == ("MR", "CR", "Avg")
    assert [row.name for row in table.rows] == ["a-1", "b/en@start", "b/en"]
    values = []
    for row in table.rows:
        values.append([cell.value for cell in row.cells])

    assert values == [[81.0, 90.5, 85.75], [70.0, None, None], [60.0, None, None]]
    assert dict(table.rows[0].cells[0].seeds) == {1: 80.0, 2: 82.0}


def test_runs_of_one_name_are_told_apart(write_run):
    first_run, again = (
        write_run("one", score("MR", 80.0)),
        write_run("one", score("MR", 75.0), directory="again"),
    )
    (table,) = selected_tables([first_run, again])
    assert [row.name for row in table.rows] == [f"one ({first_run})", f"one ({again})"]


def test_unlike_protocols_stand_in_tables_of_their_own(write_run):
    first_run = write_run(
        "one", score("MR", 80.0, folds=10), score("CR", 90.0, folds=10)
    )
    two = write_run(
        "two",
        score("MR", 60.0, folds=5),
        score("CR", 70.0, folds=5),
        pooler={"use": "first"},
    )
    first, second = selected_tables([first_run, two])
    assert [row.name for row in first.rows if row.encoder] == ["one"]
    assert [row.name for row in second.rows if row.encoder] == ["two"]
    assert second.apart


def test_one_metric_evaluator_or_protocol_can_be_asked_for(write_run):
    logistic = {"id": "logistic", "classifier": {"C": [1, 2], "folds": 10}}
    scores = (
        score("MR", 80.0),
        attrs.evolve(
            score("MR", 81.0), protocol={"encoder": {}, "evaluator": logistic}
        ),
        score("MRPC", 82.0, metric="f1"),
        of_evaluator("sts", "STS12", 70.0),
    )
    run = write_run("one", *scores)
    for choice, value in (
        ({"evaluator": "sts"}, 70.0),
        ({"protocol": "logistic"}, 81.0),
        ({"metric": "f1"}, 82.0),
    ):
        (table,) = selected_tables([run], **choice)
        assert [cell.value for cell in table.rows[0].cells] == [value]

    with pytest.raises(
        RunError,
        match=r"no score is of the protocol `logistc`\. Did you mean `logistic`",
    ):
        selected_tables([run], protocol="logistc")


def test_a_run_without_scores_says_what_to_add(write_run):
    with pytest.raises(RunError, match=r"add an `\[\[evaluate\]\]` to their recipes"):
        selected_tables([write_run("empty")])


def test_the_best_is_that_of_a_metric_of_which_one_way_is_better(write_run):
    runs = []
    for name, value in {"a": 30.0, "b": 10.0, "c": 20.0}.items():
        error = attrs.evolve(score("T", value, metric="error"), direction="lower")
        width = attrs.evolve(score("U", value, metric="width"), direction="none")
        runs.append(write_run(name, error, width, pooler={"use": name}))

    (table,) = selected_tables(runs)
    assert [row.cells[0].place for row in table.rows] == [None, 1, 2]
    assert [row.cells[1].place for row in table.rows] == [None, None, None]
    (alone,) = selected_tables(runs[:1])
    assert alone.rows[0].cells[0].place is None


@pytest.mark.parametrize(
    ("form", "beginning", "row"),
    [
        (
            "text",
            "one: transfer (accuracy; senteval)\ncell ",
            "\none   80.00  90.00  85.00\n",
        ),
        (
            "markdown",
            "**one: transfer (accuracy; senteval)**",
            "| 80.00 | 90.00 | 85.00 |",
        ),
        ("latex", "% Needs", "80.00"),
        ("csv", "table,cell,encoder,status,task,metric,mean,", ",80.0,"),
        ("html", '<div class="table">', "80.00</td>"),
    ],
)
def test_a_table_has_each_format(write_run, form, beginning, row):
    run = write_run("one", score("MR", 80.0), score("CR", 90.0))
    done = CliRunner().invoke(main, ["table", str(run), "--format", form])
    assert done.exit_code == 0
    assert done.output.startswith(beginning)
    assert row in done.output


def test_several_tables_are_one_csv_with_a_number_a_line(write_run):
    run = write_run("one", score("MR", 80.0), of_evaluator("sts", "STS12", 70.0))
    lines = (
        CliRunner()
        .invoke(main, ["table", str(run), "--format", "csv"])
        .output.splitlines()
    )
    assert lines[0].startswith("table,cell,encoder,status,task,metric,mean,std,seeds")
    assert [line.split(",")[:7] for line in lines[1:]] == [
        ["transfer-senteval", "one", "en", "finished", "MR", "accuracy", "80.0"],
        ["sts-senteval", "one", "en", "finished", "STS12", "accuracy", "70.0"],
    ]
