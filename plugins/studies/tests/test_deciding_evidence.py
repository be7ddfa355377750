from __future__ import annotations

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.statistics.item_components import ComponentStore, MeanScore
from sentbed_report.statistics.significance import RESAMPLES, judge_cell
from sentbed_report.study.deciding_score import Decide
from sentbed_studies.deciding_evidence import item_variances, why_undecided


def hits(share, seed, n):
    easy = np.random.default_rng(99).random(n)
    return Items(
        "mean",
        (easy + 0.1 * np.random.default_rng(seed).normal(size=n) < share).astype(float),
    )


def score(task, items, value=50.0):
    return Score(task, "accuracy", value, {"id": "p", "split": "dev"}, items=items)


def test_variances_of_items_are_those_of_the_tables():
    """Two tasks of unlike sizes, two seeds: as `judge_cell` has them."""
    runs = {}
    for cell, share in (("x", 0.3), ("y", 0.5), ("z", 0.55)):
        runs[cell] = [
            MeanScore(
                (
                    score("a", hits(share, seed, 300)),
                    score("b", hits(share, seed + 9, 80)),
                )
            )
            for seed in (1, 2)
        ]
    variances, degrees = item_variances(
        runs, ComponentStore(RESAMPLES), ["x", "y", "z"]
    )
    columns = {cell: dict(enumerate(of_seeds)) for cell, of_seeds in runs.items()}
    for place, name in enumerate(("y", "z"), start=1):
        judgement = judge_cell(columns["x"], columns[name], ComponentStore(RESAMPLES))
        assert judgement.item_variance == pytest.approx(variances[0, place])
        assert judgement.item_degrees == pytest.approx(degrees[0, place])
        assert variances[0, place] > 0
    assert np.diag(variances) == pytest.approx(0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((), "it has no score that decides under seed 3"),
        (
            (Score("a", "accuracy", float("nan"), {}),),
            "a score under seed 3 is not finite",
        ),
        (
            (Score("a", "accuracy", 50.0, {}, degenerate="one class"),),
            "its score of a under seed 3 is degenerate: one class",
        ),
        ((Score("a", "accuracy", 1.0, {}),), ""),
    ],
)
def test_scores_that_cannot_decide_say_why(scores, message):
    assert why_undecided(3, scores, Decide()).startswith(message)
    assert bool(why_undecided(3, scores, Decide())) == bool(message)


def test_every_task_that_is_to_decide_must_have_a_score():
    scores = (Score("a", "accuracy", 1.0, {}),)
    assert (
        why_undecided(3, scores, Decide(("a", "b")))
        == "it has no score of b under seed 3"
    )
