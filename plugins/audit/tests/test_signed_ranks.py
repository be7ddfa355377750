"""Wilcoxon's test of many pairs is scipy's of each."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import stats
from sentbed_audit.signed_ranks import signed_rank_p_values

SEEDS = st.integers(0, 2**32)


def require_the_p_value_of_scipy(shared):
    expected = stats.wilcoxon(shared).pvalue
    [p_value] = signed_rank_p_values(shared[None])
    assert p_value == pytest.approx(expected, abs=1e-12)


@hypothesis.given(SEEDS, st.integers(1, 60))
def test_a_pair_without_ties_and_zeros_has_the_p_value_of_scipy(seed, tasks):
    generator = np.random.default_rng(seed)
    require_the_p_value_of_scipy(generator.normal(0.3, 1, tasks))


# Up to 13 differences, scipy tries all signs. That takes 0.7 s for 13 of them and a
# few ms for 6, so that one example has 13, and the drawn ones have fewer or more.
@hypothesis.given(
    SEEDS,
    st.integers(1, 6) | st.integers(14, 60),
    st.integers(0, 5),
    st.sampled_from([3, 30]),
)
@hypothesis.example(0, 13, 1, 3)
def test_a_pair_with_ties_or_zeros_has_the_p_value_of_scipy(
    seed, tasks, zeros, largest
):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(1, largest, tasks, endpoint=True) / 10
    signs = generator.choice([-1, 1], tasks)
    shared = generator.permutation(np.append(signs * sizes, np.zeros(zeros)))
    require_the_p_value_of_scipy(shared)


@pytest.mark.parametrize("tasks", [8, 15, 60])
def test_pairs_do_not_depend_on_each_other(tasks):
    differences = np.random.default_rng(0).normal(0.3, 1, (12, tasks))
    differences[3] = 0
    differences[5, :4] = 0.1
    differences[6, 0] = 0
    together = signed_rank_p_values(differences)
    alone = [signed_rank_p_values(row[None])[0] for row in differences]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    assert together[3] == 1
