from __future__ import annotations

import numpy as np
import pytest
from sentbed_evaluators import feature_table as module
from sentbed_evaluators.feature_table import feature_table
from sentbed_evaluators.pair_features import pair_features

VECTORS = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
FIRST = np.array([0, 6, 2, 2, 5])
SECOND = np.array([1, 1, 3, 2, 0])


def naive(first, second):
    rows = []
    for i, j in zip(first, second, strict=True):
        u, v = VECTORS[i], VECTORS[j]
        rows.append(
            [
                *u,
                *v,
                *(a * b for a, b in zip(u, v, strict=True)),
                *(abs(a - b) for a, b in zip(u, v, strict=True)),
            ]
        )

    return rows


@pytest.mark.parametrize("block", [1, 2, 4096])
def test_pairs_have_both_vectors_their_product_and_their_distance(monkeypatch, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    table = feature_table(VECTORS, [FIRST, SECOND])
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, np.array(naive(FIRST, SECOND), np.float32))


def test_the_kind_of_features_is_the_callers():
    table = feature_table(VECTORS, [FIRST, SECOND], "senteval")
    np.testing.assert_array_equal(
        table, pair_features(VECTORS[FIRST], VECTORS[SECOND], "senteval")
    )


def test_a_concatenation_is_the_two_vectors_side_by_side():
    table = feature_table(VECTORS, [FIRST, SECOND], "concatenation")
    expected = [[*VECTORS[i], *VECTORS[j]] for i, j in zip(FIRST, SECOND, strict=True)]
    np.testing.assert_array_equal(table, np.array(expected, np.float32))


def test_a_single_sentence_has_its_vector():
    np.testing.assert_array_equal(feature_table(VECTORS, [FIRST]), VECTORS[FIRST])
