from __future__ import annotations

from sentbed.protocols import Score
from sentbed_report.data_splits import is_development
from sentbed_report.study.deciding_score import Decide, deciding_scores


def score(task, value, split="dev", **more):
    fields = {"metric": "spearman", "evaluator": "sts", "encoder": "en", **more}
    return Score(
        task=task,
        value=value,
        protocol={"encoder": {}, "evaluator": {"split": split}},
        **fields,
    )


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


def test_the_first_metric_of_each_task_on_development_data_decides():
    assert [score.value for score in deciding_scores(SCORES, Decide())] == [50.0, 80.0]
    assert [
        score.value for score in deciding_scores(SCORES, Decide(evaluator="sts"))
    ] == [50.0]
    assert [
        score.value for score in deciding_scores(SCORES, Decide(("a",), "sts"))
    ] == [50.0]


def test_without_named_tasks_only_scores_in_the_unit_of_the_first_decide():
    pairs = [
        score("STSB-dev", 78.0),
        score("pairs", -0.2, metric="alignment", direction="lower"),
    ]
    assert deciding_scores(pairs, Decide()) == (pairs[0],)
    # A task decides by the metric of the first also where that is not the task's own first.
    pairs += [score("SICKR-dev", 60.0, metric="pearson"), score("SICKR-dev", 70.0)]
    assert [deciding.value for deciding in deciding_scores(pairs, Decide())] == [
        78.0,
        70.0,
    ]
    assert [
        deciding.value
        for deciding in deciding_scores(pairs, Decide(("pairs", "SICKR-dev")))
    ] == [-0.2, 60.0]


def test_what_depends_on_the_machine_decides_only_where_it_is_named():
    protocol = {
        "encoder": {},
        "evaluator": {"id": "throughput", "machine": {"device": "cpu"}},
    }
    speed = Score("length-64", "examples/s", 900.0, protocol, "en", "throughput")
    spread = Score(
        "length-64", "spread", 3.0, protocol, "en", "throughput", direction="lower"
    )
    scores = (speed, spread, score("b", 70.0, "test"))
    assert deciding_scores(scores, Decide(test_data=True)) == scores[2:]
    assert deciding_scores(scores[:2], Decide(test_data=True)) == ()
    assert deciding_scores(scores, Decide(evaluator="throughput", test_data=True)) == (
        speed,
    )
    assert deciding_scores(scores, Decide(("length-64",), test_data=True)) == (speed,)


def test_test_data_decide_only_where_they_may():
    assert deciding_scores([SCORES[4]], Decide()) == ()
    assert [
        score.value for score in deciding_scores(SCORES, Decide(test_data=True))
    ] == [70.0]
    assert is_development(SCORES[1])
    assert not is_development(SCORES[4])
    assert not is_development(Score("a", "m", 1.0, {}))
