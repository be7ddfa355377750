from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sentbed.protocols import Score
from sentbed_report.comparability import evaluation_protocol
from sentbed_report.study.comparable_scores import comparable_scores
from sentbed_report.study.measurements import Measurement
from sentbed_report.study.study_data import CellInfo, CellRun

ROWS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.builds(
            lambda evaluator, task, metric, folds: Score(
                task, metric, 1.0, {"encoder": {}, "evaluator": {"id": "p", "folds": folds}}, "en", evaluator
            ),
            st.sampled_from(["e", "f"]),
            st.sampled_from(["MR", "CR", "AVG"]),
            st.sampled_from(["accuracy", "f1"]),
            st.sampled_from([5, 10]),
        ),
    ),
    max_size=12,
)


def score(task: str, **protocol: Any) -> Score:
    return Score(task, "accuracy", 1.0, {"encoder": {}, "evaluator": {"id": "p", **protocol}}, "en", "e")


def measured(rows: list[tuple[str, Score]]) -> list[Measurement]:
    """Scores of cells, of one run each."""
    return [Measurement(CellInfo(cell, {}, ()), CellRun(cell, 1, "finished"), score) for cell, score in rows]


def differences(rows: list[tuple[str, Score]]) -> list[str]:
    return [table.apart for table in comparable_scores(measured(rows))]


@given(ROWS)
def test_nothing_unlike_stands_in_one_table_and_nothing_is_lost(rows: list[tuple[str, Score]]) -> None:
    scores = measured(rows)
    tables = comparable_scores(scores)
    for table in tables:
        protocols: dict[str, Any] = {}
        for measurement in table.measured:
            score = measurement.score
            protocol = (score.evaluator, score.metric, evaluation_protocol(score))
            assert protocols.setdefault(score.task, protocol) == protocol
    placed = [id(measurement) for table in tables for measurement in table.measured]
    assert sorted(placed) == sorted(map(id, scores))


def test_what_a_row_has_stays_together() -> None:
    rows = [
        *(("a", score(task, folds=10)) for task in ("MR", "CR")),
        *(("b", score(task, **protocol)) for task, protocol in (("TREC", {}), ("CR", {"folds": 5}))),
        ("c", score("TREC")),
    ]
    tables = [
        [(measurement.cell.name, measurement.score.task) for measurement in table.measured]
        for table in comparable_scores(measured(rows))
    ]
    assert tables == [[("a", "MR"), ("a", "CR"), ("c", "TREC")], [("b", "TREC"), ("b", "CR")]]


def test_entries_are_named_with_their_values_and_with_their_tasks_where_not_all_differ() -> None:
    rows = [
        ("a", score("MR", folds=10, data={"sha": "x"})),
        ("a", score("CR", folds=10, data={"sha": "y"})),
        ("b", score("MR", folds=5, data={"sha": "z"})),
        ("b", score("CR", folds=5, data={"sha": "u"})),
    ]
    assert differences(rows) == [
        "data.sha (x against z, …), folds (10 against 5)",
        "data.sha (z against x, …), folds (5 against 10)",
    ]
    rows[3] = ("b", score("CR", folds=10, data={"sha": "y"}, test="no"))
    assert differences(rows)[0] == (
        "data.sha (x against z) of MR, folds (10 against 5) of MR, test (nothing against no) of CR"
    )
    assert differences(rows[:2]) == [""]
