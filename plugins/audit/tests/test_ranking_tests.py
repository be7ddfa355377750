"""What may be claimed, against hand-computed values, naive loops and the reference libraries."""

from __future__ import annotations

import itertools

import numpy as np
import pandas
import pytest
from scipy import stats
from sentbed_audit.audit_report import ranking
from sentbed_audit.ranking_tests import claims_of
from statsmodels.stats.multitest import multipletests

TASKS = [f"T{number}" for number in range(10)]


def table(values):
    index = [f"m{number}" for number in range(len(values))]
    return pandas.DataFrame(values, index, TASKS[: values.shape[1]])


def random_scores(rows=6, seed=0):
    """Scores on ten tasks; each row is better than the next by the standard deviation over tasks."""
    generator = np.random.default_rng(seed)
    scores = generator.normal(0.5, 0.02, (rows, 10))
    lead = 0.02 * np.arange(rows)[::-1]
    return scores + lead[:, None]


def claims(values):
    return claims_of(table(values))


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([0.5, -1.0], 100),
        ([-2.0, -30.0], 1),
    ],
)
def test_scores_from_minus_one_to_one_become_percentages(values, scale):
    column = np.array(values)[:, None]
    result = claims(np.repeat(column, 10, axis=1))
    means = result.means
    assert means.tolist() == [scale * value for value in values]


def test_pairs_are_those_of_a_loop_over_the_tasks():
    result = claims(random_scores())
    values = result.scores.to_numpy()
    p_values = []
    for pair in itertools.combinations(range(6), 2):
        first, second = pair
        apart = values[first] - values[second]
        p_value = stats.wilcoxon(apart).pvalue
        assert result.p_values[pair] == pytest.approx(p_value)
        assert result.p_values[second, first] == result.p_values[pair]
        p_values.append(p_value)
        if second == first + 1:
            model = ranking(result)[first]
            assert model.difference == pytest.approx(apart.mean())
            assert model.p_value == pytest.approx(p_value)
    corrected = multipletests(p_values, method="holm")[1]
    np.testing.assert_allclose(result.corrected[np.triu_indices(6, 1)], corrected)


@pytest.mark.parametrize(
    ("models", "tasks_needed"),
    [
        (2, 6),
        (111, 18),
    ],
)
def test_the_tasks_that_are_needed_are_the_fewest_by_which_a_pair_can_differ(
    models, tasks_needed
):
    pairs = models * (models - 1) / 2
    result = claims(random_scores(models))
    assert result.tasks_needed == tasks_needed
    smallest_corrected = pairs * 2.0 ** (1 - tasks_needed)
    assert smallest_corrected <= 0.05
    assert 2 * smallest_corrected > 0.05
    smallest = stats.wilcoxon(np.arange(1.0, 11)).pvalue
    assert result.smallest_p_value == pytest.approx(smallest)


def test_a_clear_order_has_ranks_without_an_interval_and_equal_rows_share_theirs():
    values = random_scores(3)
    values[0] += 2
    values[2] -= 0.02
    result = claims(values)
    assert result.scores.index[0] == "m0"
    assert result.rank_intervals[0] == (1, 1)
    scores = np.linspace(0.4, 0.6, 10)
    equal_rows = np.tile(scores, (3, 1))
    intervals = claims(equal_rows).rank_intervals
    assert set(intervals) == {(1, 3)}


def test_models_without_all_tasks_make_no_claim():
    values = random_scores(3)
    values[1:, 0] = np.nan
    with pytest.raises(ValueError, match="1 of 3 models have all 10 tasks"):
        claims(values)


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("tables", "most"), [(60, 7), (300, 24)])
def test_equal_models_are_rarely_told_apart(tables, most):
    """Family-wise error of tables of 8 equal models over 20 tasks."""
    generator = np.random.default_rng(7)
    wrong = 0
    columns = [f"T{number}" for number in range(20)]
    for _ in range(tables):
        values = generator.normal(0.5, 0.1, (8, 20))
        scores = pandas.DataFrame(values, columns=columns)
        wrong += bool(claims_of(scores).better.any())
    assert wrong <= most
