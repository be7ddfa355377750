from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed import FilePath
from sentbed.protocols import ANY_TASK, Score
from sentbed_common import cosines
from sentbed_evaluators.degenerate_scores import (
    collapsed,
    equal_cosines,
    equal_vectors,
    one_class,
)
from sentbed_evaluators.task_suites import average


def test_predictions_of_one_class_are_degenerate_in_all_folds_only():
    assert one_class(np.array([3, 3, 3])) == "the classifier predicts one class only"
    assert one_class(np.array([3, 3, 1])) == ""
    folds = np.array([0, 0, 1, 1])
    # The largest class of each fold's training examples need not be the same.
    assert (
        one_class(np.array([3, 3, 1, 1]), folds)
        == "the classifier predicts one class only"
    )
    assert one_class(np.array([3, 1, 1, 1]), folds) == ""


@given(st.floats(1e-6, 1), st.integers(2, 40), st.integers(0, 100))
def test_collapsed_vectors_are_those_of_which_no_two_are_apart(spread, rows, seed):
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=16) + spread * rng.normal(size=(rows, 16))).astype(
        np.float32
    )
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    lowest = float((units @ units.T).min())
    if collapsed(vectors):
        # An angle of at most a to the mean is one of at most 2a to each other.
        assert lowest >= 1 - 4e-3 - 1e-6
    else:
        assert lowest < 1 - 1e-3 + 1e-6


def test_an_average_with_a_degenerate_task_is_degenerate():
    scores = [
        Score(task, "accuracy", 50.0, {}, degenerate=why)
        for task, why in (("MR", ""), ("TREC", "x"))
    ]
    assert (
        average(scores, "accuracy").degenerate
        == "it includes TREC, where the score is degenerate"
    )
    assert average(scores[:1], "accuracy").degenerate == ""


@pytest.mark.parametrize("squared", [0.0, 1e-4])
def test_geometry_of_collapsed_vectors_says_so(squared, tmp_path, table_encoder):
    from sentbed_evaluators.geometry import Geometry

    path = tmp_path / "pairs.tsv"
    rows = [f"a{n}\tb{n}\t{5 - n % 3}\n" for n in range(12)]
    path.write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    encoder = table_encoder(width=6)
    plain = encoder.encode

    def near(texts, task=ANY_TASK):
        return (1 + squared * plain(texts)).astype(np.float32)

    evaluator = Geometry(path=FilePath(str(path)))
    for score in evaluator.prepare().evaluate(encoder).scores:
        assert not score.degenerate

    encoder.encode = near
    for score in evaluator.prepare().evaluate(encoder).scores:
        assert score.degenerate.startswith("the vectors have collapsed:")

    spread_out = attrs.evolve(evaluator, measures=("alignment", "anisotropy"))
    for score in spread_out.prepare().evaluate(encoder).scores:
        assert bool(score.degenerate) == (score.metric == "alignment")


def test_vectors_that_are_close_rank_and_equal_ones_do_not():
    rng = np.random.default_rng(1)
    close = (1 + 1e-2 * rng.normal(size=(40, 16))).astype(np.float32)
    assert collapsed(close)
    assert equal_vectors(close) == equal_cosines(cosines(close[:20], close[20:])) == ""

    equal = (1 + 1e-7 * rng.normal(size=(40, 16))).astype(np.float32)
    assert equal_vectors(equal)
    assert equal_cosines(cosines(equal[:20], equal[20:]))
