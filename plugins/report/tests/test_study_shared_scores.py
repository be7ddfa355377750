from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from sentbed.protocols import Score
from sentbed_report.score_protocols import evaluation_protocol
from sentbed_report.study.comparable_scores import comparable_scores
from sentbed_report.study.measurements import Measurement
from sentbed_report.study.study_data import CellInfo, CellRun

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.builds(
            lambda evaluator, task, metric, folds: Score(
                task,
                metric,
                1.0,
                {"encoder": {}, "evaluator": {"id": "p", "folds": folds}},
                "en",
                evaluator,
            ),
            st.sampled_from(["e", "f"]),
            st.sampled_from(["MR", "CR", "AVG"]),
            st.sampled_from(["accuracy", "f1"]),
            st.sampled_from([5, 10]),
        ),
    ),
    max_size=12,
)


def score(task, folds=10):
    protocol = {"encoder": {}, "evaluator": {"id": "p", "folds": folds}}
    return Score(task, "accuracy", 1.0, protocol, "en", "e")


def measured(rows):
    """Scores of cells, of one run each."""
    measurements = []
    for cell, score in rows:
        run = CellRun(cell, 1, "finished")
        measurements.append(Measurement(CellInfo(cell, {}, ()), run, score))
    return measurements


@given(ROWS)
def test_nothing_unlike_stands_in_one_table_and_nothing_is_lost(rows):
    scores = measured(rows)
    tables = comparable_scores(scores)
    for table in tables:
        protocols = {}
        for measurement in table.measured:
            score = measurement.score
            protocol = (score.evaluator, score.metric, evaluation_protocol(score))
            assert protocols.setdefault(score.task, protocol) == protocol

    placed = []
    for table in tables:
        placed += map(id, table.measured)
    assert sorted(placed) == sorted(map(id, scores))


def tables_of(rows):
    """Cell and task of each score, table by table."""
    tables = []
    for table in comparable_scores(measured(rows)):
        cells_and_tasks = []
        for measurement in table.measured:
            cells_and_tasks.append((measurement.cell.name, measurement.score.task))
        tables.append(cells_and_tasks)
    return tables


def test_an_average_stands_with_the_task_that_has_another_protocol():
    rows = [("a", score("MR")), ("a", score("CR")), ("a", score("AVG"))]
    rows += [("b", score("MR")), ("b", score("CR", 5)), ("b", score("AVG"))]
    first, second = tables_of(rows)
    assert first == [("a", "MR"), ("a", "CR"), ("b", "MR"), ("a", "AVG")]
    assert second == [("b", "CR"), ("b", "AVG")]


def test_the_protocol_of_most_rows_stands_first_whichever_row_comes_first():
    rows = [("a", score("MR")), ("a", score("CR", 5))]
    for cell in "bc":
        rows += [(cell, score("MR")), (cell, score("CR"))]
    first, second = tables_of(rows)
    assert first == [("a", "MR"), ("b", "MR"), ("b", "CR"), ("c", "MR"), ("c", "CR")]
    assert second == [("a", "CR")]
