from __future__ import annotations

import pytest
from sentbed.history import History
from sentbed.protocols import Evaluation, Score
from sentbed.recipe import Expected, Recipe


def found(keys: list[str], *scores: Score) -> list[float | None]:
    history = History()
    for score in scores:
        history.scores_ready(score.encoder, Evaluation((score,), 0.0))
    expected = {key: Expected(1.0, 0.1) for key in keys}
    recipe = Recipe(1, None, None, {}, expected=expected)  # type: ignore[arg-type]  # only `expected` is read
    return [row.found for row in history.expected(recipe)]


def score(value: float, metric: str = "spearman", encoder: str = "encoder", protocol: str = "p") -> Score:
    return Score("STS12", metric, value, {"id": protocol}, encoder, "sts")


def test_a_task_alone_names_its_first_metric() -> None:
    scores = (score(1.0), score(2.0, "pearson"))
    assert found(["STS12", "STS12/pearson", "STS13"], *scores) == [1.0, 2.0, None]


def test_scores_before_training_are_not_expected() -> None:
    assert found(["STS12"], score(1.0, encoder="encoder@start"), score(2.0)) == [2.0]


@pytest.mark.parametrize(
    ("other", "key"),
    [(score(2.0, encoder="en"), "en/STS12"), (score(2.0, protocol="q"), "STS12/spearman@q")],
)
def test_a_key_that_fits_two_scores_finds_none_and_a_longer_key_finds_its_own(other: Score, key: str) -> None:
    assert found(["STS12", key], score(1.0), other) == [None, 2.0]
