"""The test of a difference over items, seeds and prompts: libraries, loops over the definition, simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats
from sentbed.protocols import Items, Score
from sentbed_common import item_score
from sentbed_report.statistics.cell_scores import CellScores, mean_over_tasks
from sentbed_report.statistics.difference import (
    Difference,
    Judged,
    Source,
    corrected,
    difference,
    estimate,
    holm,
    judge,
    listed_sources,
    weighted_sum,
)
from sentbed_report.statistics.sampling_error import Block, ItemComponents
from statsmodels.stats.multitest import multipletests

PROMPTS = ("plain", "eol", "echo", "instruction")


def score_of(items, number=math.nan):
    """A score with the value of its items, or a number without items."""
    if items is not None:
        number = item_score(items)
    protocol = {"encoder": {}, "evaluator": {"id": "p"}}
    return Score("T", "spearman", number, protocol, "en", "e", items)


def numbers(*values):
    """Scores without items, one per seed."""
    scores = {}
    for seed, number in enumerate(values):
        scores[seed, ""] = (score_of(None, number),)
    return CellScores(scores)


def mean_of(values, names=None):
    clusters = None if names is None else np.array(names)
    items = Items("mean", np.array(values, float), scale=1.0, clusters=clusters)
    return score_of(items)


def means(rows, names=None):
    """Means of items, one per seed; rows are seeds."""
    scores = {}
    for seed, row in enumerate(rows):
        scores[seed, ""] = (mean_of(row, names),)
    return CellScores(scores)


def under_prompts(values):
    """Means of items `(prompts, seeds, items)`."""
    scores = {}
    for seed in range(values.shape[1]):
        for prompt, of_prompt in zip(PROMPTS, values, strict=False):
            scores[seed, prompt] = (mean_of(of_prompt[seed]),)
    return CellScores(scores)


def assert_same(result, expected):
    assert result.value == pytest.approx(expected.value)
    assert result.interval() == pytest.approx(expected.interval())
    assert result.p_value == pytest.approx(expected.p_value)


# --- one source --------------------------------------------------------------------------------------------


def test_without_items_it_is_the_paired_t_test():
    rng = np.random.default_rng(0)
    a, b = rng.normal(70, 2, 5), rng.normal(71, 2, 5)
    result = difference(numbers(*a), numbers(*b))
    expected = stats.ttest_rel(b, a)
    assert result.p_value == pytest.approx(expected.pvalue)
    assert result.interval() == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert result.varying == ("seeds",)


@pytest.mark.parametrize(("family", "shift"), [(1, 0.5), (4, -0.5)])
def test_scores_are_equal_within_the_margin_at_which_a_one_sided_test_rejects(
    family, shift
):
    a, b = np.random.default_rng(5).normal(size=(2, 40))
    b += shift
    judged = judge([(-1.0, means([a])), (1.0, means([b]))])
    tests = corrected(dict.fromkeys(range(family), judged))
    margin = tests[0].equal_within
    below = stats.ttest_1samp(b - a, margin, alternative="less").pvalue
    above = stats.ttest_1samp(b - a, -margin, alternative="greater").pvalue
    assert max(below, above) == pytest.approx(0.05 / family)


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_seed_or_seeds_that_change_nothing_leave_a_t_test_over_the_items(seeds):
    a, b = np.random.default_rng(5).normal(size=(2, 12))
    result = difference(means([a] * seeds), means([b] * seeds))
    expected = stats.ttest_rel(b, a)
    assert result.p_value == pytest.approx(expected.pvalue)
    assert result.interval() == pytest.approx(tuple(expected.confidence_interval()))
    assert result.varying == ("items",)


def test_prompts_without_items_are_a_paired_t_test_over_the_prompts():
    values = np.random.default_rng(6).normal(size=(2, 4))
    cells = []
    for of_cell in values:
        scores = {}
        for seed in (1, 2):
            for prompt, number in zip(PROMPTS, of_cell, strict=True):
                scores[seed, prompt] = (score_of(None, number),)
        cells.append(CellScores(scores))
    result = difference(*cells)
    assert result.varying == ("prompts",)
    expected = stats.ttest_rel(values[1], values[0])
    assert result.p_value == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("weighted", [False, True])
def test_groups_have_the_degrees_of_a_stratified_mean(weighted):
    """The variance is that of a mean of groups, whose degrees are Satterthwaite's for equal variances."""
    sizes = np.array([4, 10, 30])
    groups = np.repeat(np.arange(3), sizes)
    a, b = np.random.default_rng(6).normal(size=(2, sizes.sum()))
    cells = []
    for values in (a, b):
        items = Items("mean", values, groups=groups, weighted=weighted, scale=1.0)
        cells.append(CellScores({(1, ""): (score_of(items),)}))
    source = difference(*cells).sources["items"]
    shares = np.full(3, 1 / 3)
    if weighted:
        shares = sizes / sizes.sum()
    parts = shares**2 / sizes
    expected = parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum()
    assert source.degrees == pytest.approx(expected)
    variances = []
    for group in range(3):
        variances.append((b - a)[groups == group].var(ddof=1))
    # A group's own variance is lifted by what all groups lack together, so that the sum is near, not equal.
    assert source.variance == pytest.approx((parts * variances).sum(), rel=0.15)


def test_the_variance_of_the_items_is_that_of_the_paired_bootstrap_of_scipy():
    rng = np.random.default_rng(1)
    gold = rng.normal(size=300)
    a = gold + rng.normal(size=300)
    b = gold + 0.8 * rng.normal(size=300)

    def standardised_ranks(values):
        ranks = stats.rankdata(values, axis=-1)
        ranks -= ranks.mean(axis=-1, keepdims=True)
        return ranks / np.linalg.norm(ranks, axis=-1, keepdims=True)

    def statistic(x, first, second, axis):
        apart = standardised_ranks(second) - standardised_ranks(first)
        return 100 * (standardised_ranks(x) * apart).sum(axis)

    expected = stats.bootstrap(
        (gold, a, b), statistic, paired=True, vectorized=True, n_resamples=1000, rng=1
    )
    cells = []
    for predicted in (a, b):
        items = Items("spearman", gold, predicted)
        cells.append(CellScores({(7, ""): (score_of(items),)}))
    # A standard deviation of 1,000 draws has a standard error of 2.2 %.
    result = difference(*cells)
    assert result.error == pytest.approx(expected.standard_error, rel=0.09)


def test_items_of_one_cluster_count_together():
    """Each value three times, from one passage: as if each were there once."""
    values = np.random.default_rng(7).normal(size=12)
    names = np.repeat(np.arange(12), 3).tolist()
    tripled = np.repeat(values, 3)
    single = difference(means([0 * values]), means([values]))
    clustered = difference(means([0 * tripled], names), means([tripled], names))
    assert clustered.sources["items"].degrees == 11
    assert_same(clustered, single)


# --- several sources ---------------------------------------------------------------------------------------


def test_the_p_value_is_the_level_at_which_banerjees_value_is_critical():
    sources = {
        "items": Source(1.0, 41),
        "seeds": Source(1 / 3, 2),
        "prompts": Source(5 / 12, 3),
    }
    result = Difference(2.0, sources)

    def critical(level):
        squares = 0.0
        for source in sources.values():
            squares += source.variance * stats.t.isf(level / 2, source.degrees) ** 2
        return math.sqrt(squares)

    expected = optimize.brentq(lambda level: critical(level) - 2, 1e-9, 1, xtol=1e-15)
    assert result.p_value == pytest.approx(expected)
    assert result.interval(0.01) == pytest.approx(
        (2 - critical(0.01), 2 + critical(0.01))
    )
    known = Difference(3.0, {"items": Source(4.0, math.inf)})
    assert known.p_value == pytest.approx(2 * stats.norm.sf(1.5))


def naive_interval(differences):
    """Mean and 95 % interval of differences `(prompts, seeds, items)`, by loops over the definition."""
    mean = sum(differences.ravel()) / differences.size
    square = 0.0
    for axis, length in enumerate(differences.shape):
        of_places = []
        for place in range(length):
            of_places.append(differences.take(place, axis).mean())
        squares = sum((value - mean) ** 2 for value in of_places)
        variance = squares / (length - 1) / length
        square += variance * stats.t.isf(0.025, length - 1) ** 2
    reach = math.sqrt(square)
    return float(mean - reach), float(mean + reach)


@given(
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(3, 30),
    st.floats(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_the_interval_is_that_of_a_loop_over_prompts_seeds_and_items(
    prompts, seeds, items, spread, seed
):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(2, prompts, seeds, items))
    values += spread * rng.normal(size=(2, prompts, 1, 1))
    result = difference(under_prompts(values[0]), under_prompts(values[1]))
    assert result.interval() == pytest.approx(naive_interval(values[1] - values[0]))
    assert listed_sources([Judged(result)]) == "items, prompts and seeds"


def test_prompts_that_are_all_of_interest_are_averaged():
    values = np.random.default_rng(4).normal(size=(2, 3, 4, 50))
    values += np.random.default_rng(5).normal(size=(2, 3, 1, 1))
    cells = map(under_prompts, values)
    averaged = map(means, values.mean(1))
    assert_same(difference(*cells, random=("seeds",)), difference(*averaged))


def test_a_contrast_is_the_test_of_the_weighted_sum():
    values = np.random.default_rng(10).normal(size=(3, 4, 3, 25))
    weights = (-1.0, 0.5, 0.5)
    terms = [
        (weight, under_prompts(cell))
        for weight, cell in zip(weights, values, strict=True)
    ]
    sums = np.tensordot(weights, values, 1)
    assert weighted_sum(terms).interval() == pytest.approx(naive_interval(sums))


# --- means over tasks --------------------------------------------------------------------------------------


def difference_of_means(*tasks):
    """Compare a cell with the baseline in the mean of tasks, each (baseline, cell)."""
    before, after = zip(*tasks, strict=True)
    return difference(mean_over_tasks(before), mean_over_tasks(after))


def test_a_mean_of_other_items_has_a_quarter_of_two_variances():
    few = np.random.default_rng(3).normal(size=11)
    many = np.random.default_rng(3).normal(size=51)
    result = difference_of_means(
        (means([0 * few]), means([few])), (means([0 * many]), means([many]))
    )
    small = few.var(ddof=1) / 11
    large = many.var(ddof=1) / 51
    source = result.sources["items"]
    assert source.variance == pytest.approx((small + large) / 4)
    degrees = (small + large) ** 2 / (small**2 / 10 + large**2 / 50)
    assert source.degrees == pytest.approx(degrees)


@given(
    st.integers(2, 4),
    st.lists(
        st.lists(st.integers(0, 12), min_size=3, max_size=9, unique=True),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 2**32 - 1),
)
def test_the_variance_of_any_mean_is_that_of_a_naive_loop_over_items(
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
        columns.append((means(0 * rows, names), means(rows, names)))
        for seed, row in enumerate(rows):
            for name, number in zip(names, row, strict=True):
                share = (number - row.mean()) / size / len(tasks)
                influence[seed, name] += share * math.sqrt(size / (size - 1))

    result = difference_of_means(*columns)
    variance = (influence.mean(0) ** 2).sum()
    rest = ((influence - influence.mean(0)) ** 2).sum() / (seeds * (seeds - 1))
    expected = max(0.0, variance - min(rest, result.sources["seeds"].variance))
    assert result.sources["items"].variance == pytest.approx(expected, abs=1e-12)


def test_a_mean_without_all_items_rests_on_the_seeds():
    with_items = (means([[0, 3], [0, 3]]), means([[1, 3], [2, 3]]))
    result = difference_of_means(with_items, (numbers(0.0, 0.0), numbers(1.0, 4.0)))
    assert result.varying == ("seeds",)
    assert result.p_value == pytest.approx(stats.ttest_1samp([0.75, 2.5], 0).pvalue)


# --- what cannot be tested ---------------------------------------------------------------------------------

PAIR = means([[0, 1, 2], [0, 1, 3]])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (numbers(1), numbers(2), "there is one seed, and the score has no items"),
        (
            means([[0.0]]),
            means([[1.0]]),
            "there is one seed, and the score has no items",
        ),
        (
            numbers(1, 2),
            numbers(2, 3),
            "every item and every seed has the same difference",
        ),
        (means([[0, 0]]), means([[1, 1]]), "every item and every seed has the same"),
        (numbers(1, 2), CellScores({}), "the cells have no seed in common"),
        (numbers(1, math.nan), numbers(2, 3), "a score is not finite"),
        (PAIR, means([[0, 1], [0, 1]]), "one was scored on 3 items, the other on 2"),
        (PAIR, mean_over_tasks([PAIR, PAIR]), "one is a mean over other tasks"),
        (PAIR, under_prompts(np.ones((2, 2, 3))), "not under the same prompts"),
    ],
)
def test_what_cannot_be_tested_has_no_p_value_and_says_why(before, after, reason):
    judged = judge([(-1.0, before), (1.0, after)])
    assert (judged.p_value, judged.interval, judged.significant) == (None, None, False)
    assert reason in judged.reason
    assert corrected({"cell": judged})["cell"].corrected is None


def test_identical_cells_do_not_differ():
    rows = np.random.default_rng(0).random((2, 200))
    for cell in (means(rows), numbers(1.0, 2.0)):
        result = difference(cell, cell)
        assert (result.value, result.p_value, result.interval()) == (0, 1, (0, 0))


def test_only_seeds_of_both_are_paired():
    second = CellScores(
        {(1, ""): (score_of(None, 3.0),), (0, ""): (score_of(None, 2.5),)}
    )
    assert difference(numbers(1.0, 2.0, 9.0), second).value == 1.25


# --- families ----------------------------------------------------------------------------------------------


@pytest.mark.slow  # statsmodels takes seconds to import
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holms_correction_is_that_of_statsmodels(p_values):
    expected = multipletests(p_values, method="holm")[1]
    ours = list(holm(dict(enumerate(p_values))).values())
    assert ours == pytest.approx(expected.tolist())


def test_a_corrected_p_value_is_at_least_that_of_a_smaller_one():
    corrected = holm({"a": 0.01, "b": 0.02, "c": 0.0201})
    assert corrected == pytest.approx({"a": 0.03, "b": 0.04, "c": 0.04})


def test_comparisons_with_the_baseline_share_one_half_of_the_level():
    def judged_at(p_value):
        value = stats.norm.isf(p_value / 2)
        return Judged(Difference(value, {"items": Source(1.0, math.inf)}))

    family = {"a": judged_at(0.01), "b": judged_at(0.02), "c": judged_at(0.002)}
    family["untested"] = Judged(reason="there is one seed")
    result = corrected(family, planned={"a", "b"})
    # Shares of the level: a quarter, a quarter, a half. c first: 0.002 / 0.5; then a: 0.01 x 0.5 / 0.25.
    for name, p_value, level in (
        ("a", 0.02, 0.0125),
        ("b", 0.02, 0.0125),
        ("c", 0.004, 0.025),
    ):
        assert result[name].corrected == pytest.approx(p_value)
        assert result[name].level == level
    alone = corrected({"a": family["a"], "b": family["b"]}, planned={"a", "b"})
    assert alone["b"].corrected == pytest.approx(0.02)


# --- how often it is wrong ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stds", "shape"),
    [
        # Standard deviations of the difference over prompts, seeds and items, and of what is left.
        ((0.0, 0.1, 1.0, 0.7), (1, 3, 150)),
        ((0.0, 0.25, 1.0, 0.7), (1, 2, 150)),
        ((0.0, 0.0, 1.0, 0.7), (1, 1, 5)),
        ((0.0, 0.1, 1.0, 3.0), (1, 5, 40)),
        ((1.0, 0.0, 0.1, 0.0), (4, 3, 200)),
        ((1.0, 0.1, 1.0, 0.5), (4, 5, 40)),
    ],
)
def test_equal_cells_rarely_differ_whatever_varies_most(stds, shape):
    """400 studies each; `benchmarks/study_statistics.py` has thousands, and more kinds."""
    rng = np.random.default_rng(0)
    prompts, seeds, items = shape
    layout = ItemComponents(np.zeros(items), (Block(items, items - 1),), None)
    wrong = 0
    for _ in range(400):
        values = stds[3] * rng.normal(size=(seeds, prompts, items))
        values += stds[0] * rng.normal(size=(1, prompts, 1))
        values += stds[1] * rng.normal(size=(seeds, 1, 1))
        values += stds[2] * rng.normal(size=(1, 1, items))
        of_runs = values.mean(2)
        components = (values - of_runs[..., None]) / math.sqrt(items * (items - 1))
        if estimate(of_runs, components, layout).p_value < 0.05:
            wrong += 1
    # 5 % and three standard errors of 400 studies.
    assert wrong <= 400 * 0.083
