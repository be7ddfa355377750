from __future__ import annotations

import math

import numpy as np
import pytest
from sentbed_evaluators.geometry_measures import (
    mean_cosine,
    top_singular_share,
    uniformity,
)


def naive_uniformity(vectors, power):
    terms = []
    for i, first in enumerate(vectors.astype(float)):
        for second in vectors[:i].astype(float):
            distance = math.dist(
                first / math.hypot(*first), second / math.hypot(*second)
            )

            terms.append(math.exp(-2 * distance**power))

    return math.log(sum(terms) / len(terms))


@pytest.mark.parametrize("block", [1, 4, 7, 23, 100])
@pytest.mark.parametrize(("squared", "power"), [(True, 2), (False, 1)])
def test_uniformity_in_blocks_equals_a_double_loop(block, squared, power):
    vectors = np.random.default_rng(1).normal(size=(23, 4)).astype(np.float32)
    in_blocks = uniformity(vectors, squared=squared, block=block)
    assert in_blocks == pytest.approx(naive_uniformity(vectors, power), abs=1e-12)


def test_uniformity_of_opposite_and_of_equal_vectors():
    opposite = np.array([[3.0, 0.0], [-2.0, 0.0]])
    assert uniformity(opposite, squared=True) == pytest.approx(-8)
    assert uniformity(opposite, squared=False) == pytest.approx(-4)
    assert uniformity(np.ones((5, 3)), squared=True) == pytest.approx(0)


def test_the_mean_cosine_is_that_of_all_pairs():
    vectors = np.random.default_rng(2).normal(0.1, size=(1100, 3)).astype(np.float32)
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.tril_indices(1100, -1)].tolist()
    expected = math.fsum(cosines) / len(cosines)
    assert mean_cosine(vectors) == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("shape", [(2500, 6), (4, 9)])
def test_the_top_share_equals_the_singular_values_uncentred(
    shape,
):
    vectors = np.random.default_rng(3).normal(loc=0.7, size=shape).astype(np.float32)
    values = np.linalg.svd(vectors.astype(np.float64), compute_uv=False)
    assert top_singular_share(vectors) == pytest.approx(
        float(values[0] ** 2 / (values**2).sum()), rel=1e-12
    )
