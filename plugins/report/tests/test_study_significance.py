from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sentbed.protocols import Items, Score
from sentbed_common import item_score
from sentbed_report.statistics.item_components import (
    ComponentStore,
    MeanScore,
)
from sentbed_report.statistics.significance import (
    Judged,
    TableScores,
    average_column,
    common_basis,
    corrected,
    holm,
    judge_cell,
    mean_column,
    with_test,
)
from statsmodels.stats.multitest import multipletests


def score_of(items, number=math.nan):
    """A score with the value of its items, or a number without items."""
    if items is not None:
        number = item_score(items)
    return Score(
        "T",
        "spearman",
        number,
        {"encoder": {}, "evaluator": {"id": "p"}},
        "en",
        "e",
        items,
    )


def without_items(*numbers):
    return {seed: score_of(None, number) for seed, number in enumerate(numbers)}


def mean_of(values, names=None):
    """A mean of items in the unit of the items, which may have names."""
    clusters = None if names is None else np.array(names)
    return score_of(
        Items("mean", np.array(values, float), scale=1.0, clusters=clusters)
    )


def means_of(rows, names=None):
    """A mean of items under each seed; rows are seeds."""
    return {seed: mean_of(row, names) for seed, row in enumerate(rows)}


def judged(baseline, cell):
    judged = judge_cell(baseline, cell, ComponentStore())
    return corrected({"cell": judged})["cell"]


# --- seeds and items ---------------------------------------------------------------------------------------


def test_without_items_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(70, 2, 5), rng.normal(71, 2, 5)
    comparison = judged(without_items(*a), without_items(*b))
    expected = stats.ttest_rel(b, a)
    low, high = expected.confidence_interval(0.95)
    assert (comparison.p_value, comparison.degrees) == pytest.approx(
        (expected.pvalue, 4)
    )
    assert comparison.interval == pytest.approx((low, high))
    assert comparison.difference == pytest.approx((b - a).mean())
    assert (comparison.basis, comparison.reason) == ("seeds", "")


def test_items_and_seeds_are_added_and_the_critical_value_is_banerjees():
    # d = 1, 2, 3: mean 2, V_seeds = 1, V_seeds / S = 1/3. With V_items = 1 over 42 items the variance is 4/3.
    comparison = with_test(Judged({1: 1.0, 2: 2.0, 3: 3.0}, 1.0, 41))
    error = math.sqrt(4 / 3)

    def critical(level):
        of_items = stats.t.isf(level / 2, 41)
        of_seeds = stats.t.isf(level / 2, 2)
        squares = of_items**2 + of_seeds**2 / 3
        return math.sqrt(squares / (4 / 3))

    p_value = optimize.brentq(
        lambda level: critical(level) - 2 / error, 1e-9, 1, xtol=1e-15
    )
    assert comparison.p_value == pytest.approx(p_value)
    reach = error * critical(0.05)
    assert comparison.interval == pytest.approx((2 - reach, 2 + reach))
    assert (comparison.basis, comparison.degrees) == ("items and seeds", None)


@pytest.mark.parametrize("items", [2, 8, 42, 1000])
@pytest.mark.parametrize("seeds", [2, 3, 10])
def test_a_p_value_lies_between_those_of_the_degrees_of_items_and_of_seeds(
    items, seeds
):
    rng = np.random.default_rng(items)
    for spread in (1e-6, 1e-3, 0.1, 1.0, 30.0):
        differences = 5 + spread * rng.normal(size=seeds)
        p_value = with_test(
            Judged(dict(enumerate(differences)), 0.01, items - 1)
        ).p_value
        distance = abs(differences.mean()) / math.sqrt(
            0.01 + differences.var(ddof=1) / seeds
        )
        bounds = [
            2 * stats.t.sf(distance, degrees) for degrees in (items - 1, seeds - 1)
        ]
        assert min(bounds) * (1 - 1e-9) <= p_value <= max(bounds) * (1 + 1e-9)


def test_one_seed_is_a_paired_t_test_over_the_items():
    a, b = np.random.default_rng(5).normal(size=(2, 12))
    comparison = judged({1: mean_of(a)}, {1: mean_of(b)})
    expected = stats.ttest_rel(b, a)
    assert comparison.degrees == expected.df == 11
    assert comparison.p_value == pytest.approx(expected.pvalue)
    assert comparison.interval == pytest.approx(tuple(expected.confidence_interval()))


@pytest.mark.parametrize("differences", [{1: 2.0}, {1: 2.0, 2: 2.0, 3: 2.0 + 1e-13}])
def test_one_seed_or_seeds_that_change_nothing_leave_the_items(differences):
    comparison = with_test(Judged(differences, 1.0, 20))
    assert comparison.degrees == pytest.approx(20)
    assert comparison.p_value == pytest.approx(2 * stats.t.sf(2, 20))
    assert comparison.interval == pytest.approx((2 - 2.0859634, 2 + 2.0859634))
    assert comparison.basis == "items"


@pytest.mark.parametrize(
    ("bases", "expected"),
    [
        ({"items"}, "items"),
        ({"items", "seeds"}, "items and seeds"),
        ({"items", "items and prompts"}, "items and prompts"),
        ({"prompts", "prompts and seeds"}, "prompts and seeds"),
        ({"items and prompts", "seeds"}, "items, prompts and seeds"),
    ],
)
def test_several_tests_together_have_the_sources_that_one_of_them_has(bases, expected):
    assert common_basis(bases) == expected


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_have_the_degrees_of_a_stratified_mean(weighted):
    """The variance is that of a mean of groups, whose degrees are Satterthwaite's for equal variances."""
    sizes = np.array([4, 10, 30])
    groups = np.repeat(np.arange(3), sizes)
    a, b = np.random.default_rng(6).normal(size=(2, sizes.sum()))
    before, after = (
        score_of(Items("mean", values, groups=groups, weighted=weighted, scale=1.0))
        for values in (a, b)
    )
    comparison = judged({1: before}, {1: after})
    shares = sizes / sizes.sum() if weighted else np.full(3, 1 / 3)
    parts = shares**2 / sizes
    assert comparison.degrees == pytest.approx(
        parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
    )
    variances = [(b - a)[groups == group].var(ddof=1) for group in range(3)]
    # A group's own variance is lifted by what all groups lack together, so that the sum is near, not equal.
    assert comparison.item_variance == pytest.approx(
        float((parts * variances).sum()), rel=0.15
    )


def test_the_variance_of_the_items_is_that_of_the_paired_bootstrap_of_scipy():
    rng = np.random.default_rng(1)
    gold = rng.normal(size=300)
    a = gold + rng.normal(size=300)
    b = gold + 0.8 * rng.normal(size=300)
    before = score_of(Items("spearman", gold, a))
    after = score_of(Items("spearman", gold, b))

    def standardised_ranks(values):
        ranks = stats.rankdata(values, axis=-1)
        ranks -= ranks.mean(axis=-1, keepdims=True)
        return ranks / np.linalg.norm(ranks, axis=-1, keepdims=True)

    def difference(x, first, second, axis):
        apart = standardised_ranks(second) - standardised_ranks(first)
        return 100 * (standardised_ranks(x) * apart).sum(axis)

    expected = stats.bootstrap(
        (gold, a, b), difference, paired=True, vectorized=True, n_resamples=1000, rng=1
    )
    variance = judged({7: before}, {7: after}).item_variance
    assert variance is not None
    # A standard deviation of 1,000 draws has a standard error of 2.2 %.
    assert math.sqrt(variance) == pytest.approx(expected.standard_error, rel=0.09)


def test_items_of_one_cluster_count_together():
    """Each value three times, from one passage: as if each were there once."""
    values = np.random.default_rng(7).normal(size=12)
    names = np.repeat(np.arange(12), 3).tolist()
    tripled = np.repeat(values, 3)
    single = judged({1: mean_of(0 * values)}, {1: mean_of(values)})
    clustered = judged({1: mean_of(0 * tripled, names)}, {1: mean_of(tripled, names)})
    assert clustered.item_variance == pytest.approx(single.item_variance)
    assert clustered.item_degrees == single.item_degrees == 11
    assert clustered.p_value == pytest.approx(single.p_value)


# --- what cannot be judged ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("baseline", "cell", "reason"),
    [
        (
            without_items(1),
            without_items(2),
            "there is one seed, and the score has no items",
        ),
        (
            without_items(1, 2),
            without_items(2, 3),
            "the seeds change nothing, and the score has no items",
        ),
        (
            {1: mean_of([0.0])},
            {1: mean_of([1.0])},
            "there is one seed, and the score has no items",
        ),
        (without_items(1, 2), {}, "no seed has a score of both"),
        (without_items(1, 2), {8: score_of(None, 1.0)}, "no seed has a score of both"),
        (without_items(1, math.nan), without_items(2, 3), "a score is not finite"),
        (
            {1: mean_of([0, 1, 2])},
            {1: mean_of([0, 1])},
            "one was scored on 3 items, the other on 2",
        ),
        (
            {1: mean_of([0, 0])},
            {1: mean_of([1, 1])},
            "every item and every seed has the same difference",
        ),
        (
            {1: mean_of([0, 1, 2]), 2: mean_of([0, 1])},
            {1: mean_of([0, 1, 2]), 2: mean_of([0, 1])},
            "cannot be paired",
        ),
    ],
)
def test_what_cannot_be_judged_has_no_p_value_and_says_why(baseline, cell, reason):
    comparison = judged(baseline, cell)
    assert comparison.p_value is None
    assert comparison.corrected is None
    assert not comparison.significant
    assert reason in comparison.reason


def test_a_cell_that_equals_the_baseline_does_not_differ():
    rows = np.random.default_rng(0).random((2, 200))
    comparison = judged(means_of(rows), means_of(rows))
    assert comparison.difference == 0
    assert comparison.p_value == 1
    assert comparison.interval == (0, 0)


# --- columns and pairs -------------------------------------------------------------------------------------


def test_holms_correction_is_that_computed_by_hand():
    p_values = dict(zip("abcd", (0.03, 0.01, 0.04, None), strict=True))
    result = corrected(
        {name: Judged(p_value=p_value) for name, p_value in p_values.items()}
    )
    # 3 x 0.01 = 0.03; 2 x 0.03 = 0.06; 1 x 0.04 is below the one before, and becomes 0.06.
    assert [result[name].corrected for name in "abc"] == pytest.approx(
        [0.06, 0.03, 0.06]
    )
    assert result["d"].corrected is None
    assert [result[name].significant for name in "abcd"] == [False, True, False, False]


@pytest.mark.slow  # statsmodels takes seconds to import
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holms_correction_is_that_of_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1]
    assert list(holm(dict(enumerate(p_values))).values()) == pytest.approx(
        expected.tolist()
    )


def spearman_cells(cells, seeds, items, rng):
    gold = rng.normal(size=items)
    columns = {}
    for cell, noise in enumerate(rng.uniform(0.5, 1.5, cells)):
        predicted = gold + noise * rng.normal(size=(seeds, items))
        columns[f"c{cell}"] = {
            seed: score_of(Items("spearman", gold, row))
            for seed, row in enumerate(predicted)
        }

    return columns


@pytest.mark.parametrize("tasks", [1, 3])
def test_each_pair_is_judged_as_against_a_baseline(tasks):
    rng = np.random.default_rng(tasks)
    cells = average_column([spearman_cells(4, 3, 60, rng) for _ in range(tasks)], {})
    store = ComponentStore()
    expected = {
        pair: judge_cell(cells[pair[0]], cells[pair[1]], store)
        for pair in combinations(cells, 2)
    }
    assert TableScores(cells, store).pairs(list(cells)) == expected


def test_only_seeds_of_both_are_paired():
    cells = {
        "a": without_items(1.0, 2.0, 9.0),
        "b": {1: score_of(None, 3.0), 0: score_of(None, 2.5)},
    }
    comparison = TableScores(cells, ComponentStore()).pairs(["a", "b"])["a", "b"]
    assert dict(comparison.differences) == {0: 1.5, 1: 1.0}


def test_rows_are_compared_in_the_order_that_is_asked_for():
    cells = {}
    for name in "abc":
        cells[name] = {seed: score_of(None, ord(name) * seed) for seed in (1, 2)}

    pairs = TableScores(cells, ComponentStore()).pairs(["c", "a"])
    assert list(pairs) == [("c", "a")]
    assert pairs["c", "a"].difference == pytest.approx(-3)


@pytest.mark.slow
def test_pairs_of_sixty_cells_are_judged_in_seconds():
    """1,770 pairs of three seeds."""
    cells = spearman_cells(60, 3, 1500, np.random.default_rng(3))
    start = time.process_time()
    assert len(TableScores(cells, ComponentStore()).pairs(list(cells))) == 1770
    assert time.process_time() - start < 5


# --- averages ----------------------------------------------------------------------------------------------


def judged_average(*tasks):
    """Compare a cell with the baseline in the mean of tasks, each (baseline, cell)."""
    before, after = zip(*tasks, strict=True)
    return judged(mean_column(before), mean_column(after))


def test_an_average_of_other_items_has_a_quarter_of_two_variances():
    rows = [np.random.default_rng(3).normal(size=size) for size in (11, 51)]
    average = judged_average(
        *(({1: mean_of(0 * row)}, {1: mean_of(row)}) for row in rows)
    )
    small, large = (row.var(ddof=1) / len(row) for row in rows)
    first, second = rows
    assert average.difference == pytest.approx((first.mean() + second.mean()) / 2)
    assert average.item_variance == pytest.approx((small + large) / 4)
    degrees = (small + large) ** 2 / (small**2 / 10 + large**2 / 50)
    assert average.item_degrees == pytest.approx(degrees)


def test_an_item_that_two_tasks_have_counts_once_in_their_mean():
    """Both tasks have the same items: the mean knows no more than either of them."""
    values = np.random.default_rng(4).normal(size=40)
    order = np.random.default_rng(5).permutation(40)
    task = ({1: mean_of(0 * values, range(40))}, {1: mean_of(values, range(40))})
    same_task = ({1: mean_of(0 * values, order)}, {1: mean_of(values[order], order)})
    alone, both = judged_average(task), judged_average(task, same_task)
    assert both.item_variance == pytest.approx(alone.item_variance)
    assert both.item_degrees == alone.item_degrees == 39
    assert both.p_value == pytest.approx(alone.p_value)


@given(
    st.integers(2, 4),
    st.lists(
        st.lists(st.integers(0, 12), min_size=3, max_size=9, unique=True),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**32 - 1),
)
def test_the_variance_of_any_average_is_that_of_a_naive_loop_over_items(
    seeds, tasks, random
):
    """Any tasks that share any items: each item moves the mean once, by all its tasks together.

    What one seed does to one item is also in the variance over seeds, and taken out here.
    """
    rng = np.random.default_rng(random)
    columns = []
    influence = np.zeros((seeds, 13))
    for names in tasks:
        size = len(names)
        rows = rng.normal(size=(seeds, size))
        columns.append((means_of(0 * rows, names), means_of(rows, names)))
        for seed, row in enumerate(rows):
            for name, number in zip(names, row, strict=True):
                share = (number - row.mean()) / size / len(tasks)
                influence[seed, name] += share * math.sqrt(size / (size - 1))

    average = judged_average(*columns)
    variance = (influence.mean(0) ** 2).sum()
    rest = ((influence - influence.mean(0)) ** 2).sum() / (seeds * (seeds - 1))
    expected = max(0.0, variance - min(rest, average.seed_variance / seeds))
    assert average.item_variance == pytest.approx(expected, abs=1e-12)


def test_an_average_without_all_items_rests_on_the_seeds():
    with_items = (
        {1: mean_of([0, 3]), 2: mean_of([0, 3])},
        {1: mean_of([1, 3]), 2: mean_of([2, 3])},
    )
    bare = (
        {1: score_of(None, 0.0), 2: score_of(None, 0.0)},
        {1: score_of(None, 1.0), 2: score_of(None, 4.0)},
    )
    average = judged_average(with_items, bare)
    assert average.basis == "seeds"
    assert average.p_value == pytest.approx(stats.ttest_1samp([0.75, 2.5], 0).pvalue)


def test_an_average_is_over_the_seeds_that_all_tasks_have():
    second = {2: score_of(None, 5.0), 0: score_of(None, 7.0)}
    means = mean_column([without_items(1.0, 2.0, 3.0), second])
    assert {seed: mean.value for seed, mean in means.items()} == {0: 4.0, 2: 4.0}


def test_an_evaluators_own_average_borrows_the_items_only_where_it_is_the_mean():
    tasks = [{"c": {1: mean_of([1, 3])}}, {"c": {1: mean_of([4, 6])}}]
    (mean,) = average_column(tasks, {"c": {1: score_of(None, 3.5)}})["c"].values()
    assert isinstance(mean, MeanScore)
    for average in (score_of(None, 4.0), mean_of([3, 4])):
        assert average_column(tasks, {"c": {1: average}})["c"][1] is average


# --- how often it is wrong ---------------------------------------------------------------------------------

STUDIES, SEEDS, ITEMS = 200, 3, 150


def simulated(planted, items_spread, seeds_spread, seeds=SEEDS, items=ITEMS):
    """Studies in which each item has its own difference, and each run an effect of its seed."""
    studies = []
    for study in range(STUDIES):
        rng = np.random.default_rng([11, study])
        hardness = rng.normal(size=items)
        preference = planted + items_spread * rng.normal(size=items)
        columns = []
        for shift in (np.zeros(items), preference):
            luck = seeds_spread * rng.normal(size=(seeds, 1)) / math.sqrt(2)
            columns.append(
                means_of(
                    hardness + shift + luck + 0.5 * rng.normal(size=(seeds, items))
                )
            )
        studies.append(judged(columns[0], columns[1]))

    return studies


def share_significant(studies):
    return sum(study.significant for study in studies) / len(studies)


@pytest.mark.parametrize(
    ("items_spread", "seeds_spread", "seeds", "items"),
    [
        (1.0, 0.1, SEEDS, ITEMS),
        (0.2, 0.2, SEEDS, ITEMS),
        (1.0, 3 / math.sqrt(ITEMS), 2, ITEMS),
        (1.0, 0.0, 1, 5),
        (1.0, 0.0, 3, 42),
    ],
    ids=[
        "items and seeds",
        "seeds",
        "two seeds that differ more than the items",
        "five items",
        "few items",
    ],
)
def test_a_null_difference_is_found_no_more_often_than_the_level_says(
    items_spread, seeds_spread, seeds, items
):
    # At 5 %, more than 20 of 200 are found once in 800 times. That the test is not idle, a planted one shows.
    assert stats.binom.sf(20, STUDIES, 0.05) < 0.00125
    assert (
        share_significant(simulated(0.0, items_spread, seeds_spread, seeds, items))
        <= 20 / STUDIES
    )


def test_a_planted_difference_is_found_as_often_as_its_size_says_and_its_interval_covers_it():
    # The standard error of the mean difference: items 1 / 150, seeds 0.1^2 / 3, noise 2 x 0.5^2 / (3 x 150).
    of_items = 1 / ITEMS
    of_seeds = 0.1**2 / SEEDS
    noise = 2 * 0.5**2 / (SEEDS * ITEMS)
    error = math.sqrt(of_items + of_seeds + noise)
    planted = 4 * error
    power = stats.norm.sf(stats.norm.isf(0.025) - planted / error)
    assert power > 0.97
    studies = simulated(planted, 1.0, 0.1)
    # Three seeds cost some of it: the critical value is larger, and the noise is counted twice.
    assert share_significant(studies) >= power - 0.25
    covered = 0
    for study in studies:
        low, high = study.interval
        if low <= planted <= high:
            covered += 1

    assert stats.binom.cdf(179, STUDIES, 0.95) < 0.002
    assert covered >= 180
