from __future__ import annotations

from typing import Any

from sentbed.protocols import Score
from sentbed_report.study.deciding_score import Decide, deciding_scores, is_development, mean_of


def score(task: str, value: float, split: str = "dev", **more: Any) -> Score:
    fields = {"metric": "spearman", "evaluator": "sts", "encoder": "en", **more}
    return Score(task=task, value=value, protocol={"encoder": {}, "evaluator": {"split": split}}, **fields)


SCORES = (
    score("a", 10.0, encoder="en@start"),
    score("a", 50.0),
    score("a", 40.0, metric="pearson"),
    score("b", 30.0, direction="lower"),
    score("b", 70.0, "test"),
    score("c", 5.0, axis="cost"),
    score("d", 6.0, direction="none"),
    score("a", 80.0, evaluator="other"),
)


def test_the_first_metric_of_each_task_on_development_data_decides() -> None:
    assert [one.value for one in deciding_scores(SCORES, Decide())] == [50.0, 30.0, 80.0]
    assert [one.value for one in deciding_scores(SCORES, Decide(evaluator="sts"))] == [50.0, 30.0]
    assert [one.value for one in deciding_scores(SCORES, Decide(("a",), "sts"))] == [50.0]


def test_test_data_decide_only_where_they_may() -> None:
    assert deciding_scores([SCORES[4]], Decide()) == ()
    assert [one.value for one in deciding_scores(SCORES, Decide(test_data=True))] == [70.0]
    assert is_development(SCORES[1])
    assert not is_development(SCORES[4])
    assert not is_development(Score("a", "m", 1.0, {}))


def test_the_mean_is_higher_for_what_is_better() -> None:
    assert mean_of(SCORES[1:2]) == 50.0
    assert mean_of((SCORES[1], SCORES[3])) == (50.0 - 30.0) / 2
    assert mean_of(()) is None
