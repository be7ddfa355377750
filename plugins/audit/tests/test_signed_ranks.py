"""Wilcoxon's test of many pairs is scipy's of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sentbed_audit.signed_ranks import signed_rank_p_values


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([0, 1, 8]))
def test_a_pair_has_the_p_value_of_scipy(seed, tasks, decimals):
    generator = np.random.default_rng(seed)
    shared = generator.normal(0.3, 1, tasks).round(decimals)
    differences = np.insert(shared, generator.integers(0, tasks + 1, 5), np.nan)
    expected = stats.wilcoxon(shared).pvalue if shared.any() else 1.0
    assert signed_rank_p_values(differences[None])[0] == pytest.approx(
        expected, abs=1e-12
    )


def test_pairs_do_not_depend_on_each_other():
    differences = np.random.default_rng(0).normal(0.3, 1, (20, 15))
    differences[3] = 0
    differences[5, :4] = np.nan
    together = signed_rank_p_values(differences)
    alone = [signed_rank_p_values(row[None])[0] for row in differences]
    np.testing.assert_array_equal(together, alone)
    assert together[3] == 1


def test_no_shared_task_has_no_p_value():
    assert np.isnan(signed_rank_p_values(np.full((1, 4), np.nan))[0])
