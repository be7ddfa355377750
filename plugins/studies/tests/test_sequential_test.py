from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sentbed.statistics import EstimatedDifference, Source
from sentbed_studies.sequential_test import (
    PRIOR_DEGREES,
    PRIOR_DEGREES_OF_PROMPTS,
    SequentialTest,
    _effective_cells_less_one,
    pair_variances,
)

Floats = NDArray[np.float64]


def scored(scores):
    return {chr(97 + cell): row.tolist() for cell, row in enumerate(scores)}


def test_variances_of_pairs_are_those_of_their_differences():
    scores = np.random.default_rng(0).normal(size=(5, 4))
    naive = [[np.var(cell - other, ddof=1) for other in scores] for cell in scores]
    assert pair_variances(scores) == pytest.approx(np.array(naive))


def test_a_common_variance_that_one_cell_decides_is_known_from_that_cell_alone():
    rng = np.random.default_rng(3)
    alike = rng.normal(size=(8, 400))
    assert _effective_cells_less_one(alike) == pytest.approx(7, rel=0.05)
    assert _effective_cells_less_one(alike * np.array([[100.0], *[[1.0]] * 7])) < 1.5
    # Two cells have one residual, with either sign.
    assert _effective_cells_less_one(rng.normal(size=(2, 3))) == pytest.approx(1)
    assert _effective_cells_less_one(np.ones((3, 2))) == 2


def test_two_cells_without_items_are_a_paired_t_test_at_the_level_of_one_claim_and_look():
    # One pair: its variance is also what all pairs have in common, with as many degrees of freedom.
    scores = np.array([[5.0, 5.2, 5.1, 5.3], [3.0, 3.1, 3.3, 3.2]])
    p_value = 6 * stats.ttest_rel(*scores, alternative="greater").pvalue
    test = SequentialTest(("a", "b"), (2, 3, 4))
    assert (test.possible, test.level(4)) == (2, pytest.approx(0.05 / 6))
    (claim,) = test.look(scored(scores))
    assert (claim.cell, claim.than, claim.seeds) == ("b", "a", 4)
    low = stats.ttest_rel(*scores).confidence_interval(1 - 2 * test.level(4)).low
    assert (claim.difference, claim.p_value, claim.at_least) == pytest.approx(
        (2.0, p_value, low)
    )
    assert (
        SequentialTest(("a", "b"), (2, 3, 4), p_value / 1.01).look(scored(scores)) == ()
    )


def moderated(scores, prior):
    """Moderated variance of the difference of each pair over the columns, with degrees of freedom."""
    cells, count = scores.shape
    pairs = list(itertools.permutations(range(cells), 2))
    variances = {(a, b): float(np.var(scores[a] - scores[b], ddof=1)) for a, b in pairs}
    common = sum(variances.values()) / len(variances)
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    effective_less_one = (cells - 1) / cells * squares.sum() ** 2 / (squares**2).sum()
    total = prior + count - 1
    for pair, variance in variances.items():
        variances[pair] = (prior * common + (count - 1) * variance) / total
    return variances, min(total, (count - 1) * max(1.0, effective_less_one))


def naive_claims(means, sources_of, level, margin):
    """Worse and better cell of each pair that differs by more than the margin, one pair at a time."""
    claims = set()
    for better, worse in itertools.permutations(range(len(means)), 2):
        difference = float(means[better] - means[worse])
        estimate = EstimatedDifference(difference, sources_of(better, worse))
        if estimate.p_above(margin) < level:
            claims.add((chr(97 + worse), chr(97 + better)))
    return claims


@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_claims_are_those_of_a_loop_over_pairs(margin):
    rng = np.random.default_rng(1)
    number_of_claims = 0
    for _ in range(40):
        scores = rng.normal(size=(5, 4)) * 0.3 + rng.normal(size=(5, 1)) * 2
        items = pair_variances(rng.normal(size=(5, 60))) / 60
        of_seeds, degrees = moderated(scores, PRIOR_DEGREES)

        def item_variances(cells, items=items):
            assert [*cells] == [*"abcde"]
            return items, np.full(items.shape, 59.0)

        def sources_of(better, worse, items=items, of_seeds=of_seeds, degrees=degrees):
            return (
                Source(of_seeds[better, worse] / 4, degrees),
                Source(float(items[better, worse]), 59.0),
            )

        test = SequentialTest(tuple("abcde"), (4, 5), 0.3, margin)
        claims = test.look(scored(scores), item_variances)
        naive = naive_claims(scores.mean(1), sources_of, test.level(4), margin)
        assert {claim.cell for claim in claims} == {worse for worse, _ in naive}
        assert {(claim.cell, claim.than) for claim in claims} <= naive
        for claim in claims:
            assert claim.p_value < 0.3
            assert claim.difference > claim.at_least > margin
        number_of_claims += len(claims)
    assert number_of_claims > 20


def test_claims_with_prompts_are_those_of_a_loop_over_pairs():
    rng = np.random.default_rng(4)
    number_of_claims = 0
    for _ in range(40):
        # Cells, prompts, seeds.
        runs = rng.normal(size=(5, 4, 3)) * 0.3 + rng.normal(size=(5, 1, 1)) * 2
        runs += 0.5 * rng.normal(size=(5, 4, 1))
        of_seeds = moderated(runs.mean(1), PRIOR_DEGREES)
        of_prompts = moderated(runs.mean(2), PRIOR_DEGREES_OF_PROMPTS)

        def item_variances(cells):
            shape = len(cells), len(cells)
            return np.full(shape, 0.01), np.full(shape, 59.0)

        def sources_of(better, worse, of_seeds=of_seeds, of_prompts=of_prompts):
            return (
                Source(of_seeds[0][better, worse] / 3, of_seeds[1]),
                Source(of_prompts[0][better, worse] / 4, of_prompts[1]),
                Source(0.01, 59.0),
            )

        test = SequentialTest(tuple("abcde"), (3,), 0.5)
        claims = test.look(scored(runs.mean(1)), item_variances, scored(runs.mean(2)))
        naive = naive_claims(runs.mean((1, 2)), sources_of, test.level(3), 0.0)
        assert {claim.cell for claim in claims} == {worse for worse, _ in naive}
        assert {(claim.cell, claim.than) for claim in claims} <= naive
        number_of_claims += len(claims)
    assert number_of_claims > 20


def test_a_spread_over_prompts_is_counted_against_a_claim():
    seeds = {"a": [50.0, 50.1, 50.2], "b": [49.0, 49.2, 49.1]}
    assert SequentialTest(("a", "b"), (3,)).look(seeds)
    prompts = {"a": [53.0, 50.3, 47.0], "b": [49.1, 49.0, 49.2]}
    assert not SequentialTest(("a", "b"), (3,)).look(seeds, prompts=prompts)


def test_a_cell_that_was_stopped_takes_no_part_in_later_looks():
    test = SequentialTest(tuple("abc"), (2, 3))
    scores = np.array([[50.0, 50.1, 50.2], [49.9, 50.3, 50.0], [10.0, 10.1, 10.3]])
    # Of the two that beat it, the better one is named.
    (claim,) = test.look(scored(scores[:, :2]))
    assert (claim.cell, claim.than) == ("c", "b")
    assert test.at_work == ("a", "b")
    assert test.look(scored(scores)) == ()
    assert len(test.claims) == 1


def test_against_a_baseline_there_are_fewer_claims_and_none_against_others():
    scores = np.array(
        [[50.0, 50.3, 50.1], [90.0, 90.2, 90.1], [49.9, 50.2, 50.2], [10.0, 10.1, 10.3]]
    )
    test = SequentialTest(tuple("abcd"), (3,), baseline="a")
    assert test.possible == 3
    (claim,) = test.look(scored(scores))
    assert (claim.cell, claim.than) == ("d", "a")
    # Both are far below `b`, which is not asked.
    assert test.at_work == ("a", "b", "c")


def test_a_promise_for_the_best_cell_has_a_claim_for_each_other_cell():
    cells = tuple("abcd")
    assert SequentialTest(cells, (2, 3), promise="all").level(3) == pytest.approx(
        0.05 / 12 / 2
    )
    assert SequentialTest(cells, (2, 3), promise="best").level(3) == pytest.approx(
        0.05 / 3 / 2
    )


def test_the_prior_spread_is_that_of_the_pairs_that_are_tested():
    """A baseline that varies ten times as much as the others is in every pair that is tested."""
    rng = np.random.default_rng(5)
    scores = np.array([[10.0], *[[1.0]] * 9]) * rng.normal(size=(10, 3))
    names = tuple("abcdefghij")
    test = SequentialTest(names, (3,), baseline="a")
    test.look(scored(scores))
    expected = np.mean(
        [np.var(scores[0] - scores[other], ddof=1) for other in range(1, 10)]
    )
    assert test._common["seeds"].variance == pytest.approx(expected)


def test_a_margin_lets_cells_go_on_that_are_worse_by_less():
    scores = np.array([[50.0, 50.1, 50.2], [45.0, 45.2, 45.1]])
    assert SequentialTest(("a", "b"), (3,)).look(scored(scores))
    assert not SequentialTest(("a", "b"), (3,), margin=5.0).look(scored(scores))


def test_nothing_is_claimed_where_nothing_varies_or_one_cell_is_left():
    test = SequentialTest(("a", "b"), (2,))
    assert test.look({"a": [2.0, 2.0], "b": [1.0, 1.0]}) == ()
    assert test.look({"a": [2.0, 2.1]}) == ()


def test_few_studies_of_equal_cells_make_a_claim_and_most_with_a_best_one_find_it():
    """A hundred studies each; `benchmarks/sequential_studies.py` has a thousand, and more kinds."""
    rng = np.random.default_rng(2)
    wrong = 0
    correct = 0
    for advantage in (0.0, 4.0):
        for _ in range(100):
            test = SequentialTest(tuple("abcde"), (2, 3, 4, 5), 0.1)
            scores = rng.normal(size=(5, 5)) * 0.3 + rng.normal(size=5)
            scores[0] += advantage
            for seeds in test.looks:
                values = scored(scores[:, :seeds])
                test.look({cell: values[cell] for cell in test.at_work})
            if not advantage:
                wrong += bool(test.claims)
                continue
            correct += test.at_work == ("a",)
            assert {claim.than for claim in test.claims} <= {"a"}
    # 0.1 of 100, and three standard deviations more.
    assert wrong <= 19
    assert correct >= 95
