from __future__ import annotations

import pytest
from sentbed.protocols import Score
from sentbed_report.study.deciding_score import Decide, deciding_scores


def score(task, value, split="dev", **more):
    fields = {"metric": "spearman", "evaluator": "sts", "encoder": "en", **more}
    return Score(
        task=task,
        value=value,
        protocol={"encoder": {}, "evaluator": {"split": split}},
        **fields,
    )


SPEED = {"id": "throughput", "machine": {"device": "cpu"}}
SCORES = (
    score("a", 10.0, encoder="en@start"),
    score("a", 50.0),
    score("a", 40.0, metric="pearson"),
    score("b", 30.0, direction="lower"),
    score("b", 70.0, "test"),
    score("c", 5.0, axis="cost"),
    score("d", 6.0, direction="none"),
    # A task decides by the metric of the first score, also where that is not its own first.
    score("e", 60.0, metric="pearson"),
    score("e", 65.0),
    score("a", 80.0, evaluator="other"),
    Score("speed", "examples/s", 900.0, {"encoder": {}, "evaluator": SPEED}, "en", "s"),
)


@pytest.mark.parametrize(
    ("decide", "values"),
    [
        (Decide(), [50.0, 65.0, 80.0]),
        (Decide(evaluator="sts"), [50.0, 65.0]),
        (Decide(("a",), "sts"), [50.0]),
        (Decide(("b", "e")), [30.0, 60.0]),
        (Decide(test_data=True), [70.0]),
        # What depends on the machine decides only where it is named.
        (Decide(evaluator="s", test_data=True), [900.0]),
        (Decide(("speed",), test_data=True), [900.0]),
    ],
)
def test_the_scores_that_the_study_names_decide(decide, values):
    assert [score.value for score in deciding_scores(SCORES, decide)] == values
