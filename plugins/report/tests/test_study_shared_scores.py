from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sentbed.protocols import Score
from sentbed_report.paper_style_tables import paper_tables
from sentbed_report.study.comparable_scores import alike

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


@given(ROWS)
def test_nothing_unlike_stands_in_one_table_and_nothing_is_lost(rows: list[tuple[str, Score]]) -> None:
    tables = [scores for scores, _ in alike(rows)]
    for scores in tables:
        # Refuses one that would hold unlike scores.
        assert len(paper_tables(scores)) == 1
    assert sorted(id(one) for scores in tables for _, one in scores) == sorted(id(one) for _, one in rows)


def test_what_a_row_has_stays_together() -> None:
    rows = [
        *(("a", score(task, folds=10)) for task in ("MR", "CR")),
        *(("b", score(task, **own)) for task, own in (("TREC", {}), ("CR", {"folds": 5}))),
        ("c", score("TREC")),
    ]
    found = [[(row, one.task) for row, one in scores] for scores, _ in alike(rows)]
    assert found == [[("a", "MR"), ("a", "CR"), ("c", "TREC")], [("b", "TREC"), ("b", "CR")]]


def test_entries_are_named_with_their_values_and_with_their_tasks_where_not_all_differ() -> None:
    one = {"MR": {"folds": 10, "data": {"sha": "x"}}, "CR": {"folds": 10, "data": {"sha": "y"}}}
    two = {"MR": {"folds": 5, "data": {"sha": "z"}}, "CR": {"folds": 5, "data": {"sha": "u"}}}
    rows = [(row, score(t, **own)) for row, tasks in (("a", one), ("b", two)) for t, own in tasks.items()]
    assert [apart for _, apart in alike(rows)] == [
        "data.sha (x against z, …), folds (10 against 5)",
        "data.sha (z against x, …), folds (5 against 10)",
    ]
    rows[3] = ("b", score("CR", folds=10, data={"sha": "y"}, test="no"))
    assert next(iter(alike(rows)))[1] == (
        "data.sha (x against z) of MR, folds (10 against 5) of MR, test (nothing against no) of CR"
    )
    assert [apart for _, apart in alike(rows[:2])] == [""]
