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
        ("csv", "cell,seed,encoder,evaluator,protocol,", ",MR,accuracy,80.0,"),
        ("html", '<div class="table">', "80.00</td>"),
    ],
)
def test_a_table_has_each_format(write_run, form, beginning, row):
    run = write_run("one", score("MR", 80.0), score("CR", 90.0))
    done = CliRunner().invoke(main, ["table", str(run), "--format", form])
    assert done.exit_code == 0
    assert done.output.startswith(beginning)
    assert row in done.output
