from __future__ import annotations

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.resampling import resample
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.significance import RESAMPLES, judge_average, judge_column
from sentbed_studies.deciding_evidence import _item_variances, _wrong


def hits(share: float, seed: int, n: int) -> Items:
    easy = np.random.default_rng(99).random(n)
    return Items("mean", (easy + 0.1 * np.random.default_rng(seed).normal(size=n) < share).astype(float))


def score(task: str, items: Items, value: float = 50.0) -> Score:
    return Score(task, "accuracy", value, {"id": "p", "split": "dev"}, items=items)


def test_variances_of_items_are_those_of_the_tables() -> None:
    """Two tasks of unlike sizes, two seeds: as `judge_column` and `judge_average` have them."""
    runs = {
        cell: [[score("a", hits(share, seed, 300)), score("b", hits(share, seed + 9, 80))] for seed in (1, 2)]
        for cell, share in (("x", 0.3), ("y", 0.5), ("z", 0.55))
    }
    draws = {
        cell: [[resample(one.items, RESAMPLES) for one in of_seed if one.items] for of_seed in seeds]
        for cell, seeds in runs.items()
    }
    variances, degrees = _item_variances(draws, ["x", "y", "z"])
    columns = [
        judge_column(
            dict(enumerate(of_seed[place] for of_seed in runs["x"])),
            {name: dict(enumerate(of_seed[place] for of_seed in runs[name])) for name in ("y", "z")},
        )
        for place in (0, 1)
    ]
    for place, judged in enumerate(judge_average(columns).values(), start=1):
        assert judged.item_variance == pytest.approx(variances[0, place])
        assert judged.item_degrees == pytest.approx(degrees[0, place])
    assert np.diag(variances) == pytest.approx(0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((), "it has no score that decides under seed 3"),
        ((Score("a", "accuracy", float("nan"), {}),), "a score under seed 3 is not finite"),
        ((Score("a", "accuracy", 1.0, {}),), ""),
    ],
)
def test_scores_that_cannot_decide_say_why(scores: tuple[Score, ...], message: str) -> None:
    assert _wrong(3, scores, Decide()).startswith(message)
    assert bool(_wrong(3, scores, Decide())) == bool(message)


def test_every_task_that_is_to_decide_must_have_a_score() -> None:
    scores = (Score("a", "accuracy", 1.0, {}),)
    assert _wrong(3, scores, Decide(("a", "b"))) == "it has no score of b under seed 3"
