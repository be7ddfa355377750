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
    naive = [[np.var(one - other, ddof=1) for other in scores] for one in scores]
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


def naive_claims(scores, items, degrees, level, margin):
    """(worse, better) for each pair, one at a time."""
    cells, count = scores.shape
    pairs = list(itertools.permutations(range(cells), 2))
    variances = {(a, b): float(np.var(scores[a] - scores[b], ddof=1)) for a, b in pairs}
    shared = sum(variances.values()) / len(variances)
    of_seeds = PRIOR_DEGREES + count - 1
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    known_from = (cells - 1) / cells * squares.sum() ** 2 / (squares**2).sum()
    claims = set()
    for better, worse in pairs:
        variance = (
            PRIOR_DEGREES * shared + (count - 1) * variances[better, worse]
        ) / of_seeds
        repeated = Source(
            variance / count, min(of_seeds, (count - 1) * max(1.0, known_from))
        )
        sources = (repeated, Source(float(items[better, worse]), degrees))
        estimate = EstimatedDifference(
            float(scores[better].mean() - scores[worse].mean()), sources
        )
        if estimate.p_above(margin) < level:
            claims.add((worse, better))
    return claims


@pytest.mark.parametrize("margin", [0.0, 0.4])
def test_claims_are_those_of_a_loop_over_pairs(margin):
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(40):
        scores = rng.normal(size=(5, 4)) * 0.3 + rng.normal(size=(5, 1)) * 2
        of_item = rng.normal(size=(5, 60))
        items = pair_variances(of_item) / 60

        def variances(cells, found=items):
            assert [*cells] == [*"abcde"]
            return found, np.full(found.shape, 59.0)

        test = SequentialTest(tuple("abcde"), (4, 5), 0.3, margin)
        claims = test.look(scored(scores), variances)
        naive = naive_claims(scores, items, 59.0, test.level(4), margin)
        assert {one.cell for one in claims} == {chr(97 + worse) for worse, _ in naive}
        assert {(ord(one.cell) - 97, ord(one.than) - 97) for one in claims} <= naive
        assert all(
            one.p_value < 0.3 and one.difference > one.at_least > margin
            for one in claims
        )
        seen += len(claims)
    assert seen > 20


def moderated(scores, prior):
    """Moderated variance of the difference of each pair over the columns, with degrees of freedom."""
    cells, count = scores.shape
    pairs = list(itertools.permutations(range(cells), 2))
    variances = {(a, b): float(np.var(scores[a] - scores[b], ddof=1)) for a, b in pairs}
    shared = sum(variances.values()) / len(variances)
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    known_from = (cells - 1) / cells * squares.sum() ** 2 / (squares**2).sum()
    total = prior + count - 1
    mixed = {
        pair: (prior * shared + (count - 1) * of_pair) / total
        for pair, of_pair in variances.items()
    }
    return mixed, min(total, (count - 1) * max(1.0, known_from))


def test_claims_with_prompts_are_those_of_a_loop_over_pairs():
    rng = np.random.default_rng(4)
    seen = 0
    for _ in range(40):
        runs = (
            rng.normal(size=(5, 4, 3)) * 0.3 + rng.normal(size=(5, 1, 1)) * 2
        )  # cell, prompt, seed
        runs += 0.5 * rng.normal(size=(5, 4, 1))
        items = np.full((5, 5), 0.01)
        of_seeds, seed_degrees = moderated(runs.mean(1), PRIOR_DEGREES)
        of_prompts, prompt_degrees = moderated(runs.mean(2), PRIOR_DEGREES_OF_PROMPTS)
        test = SequentialTest(tuple("abcde"), (3,), 0.5)
        expected = set()
        for better, worse in itertools.permutations(range(5), 2):
            sources = (
                Source(of_seeds[better, worse] / 3, seed_degrees),
                Source(of_prompts[better, worse] / 4, prompt_degrees),
                Source(0.01, 59.0),
            )
            estimate = EstimatedDifference(
                float(runs[better].mean() - runs[worse].mean()), sources
            )
            if estimate.p_above(0.0) < test.level(3):
                expected.add((chr(97 + worse), chr(97 + better)))

        def variances(cells, of_pairs=items):
            return of_pairs, np.full(of_pairs.shape, 59.0)

        claims = test.look(scored(runs.mean(1)), variances, scored(runs.mean(2)))
        assert {claim.cell for claim in claims} == {worse for worse, _ in expected}
        assert {(claim.cell, claim.than) for claim in claims} <= expected
        seen += len(claims)
    assert seen > 20


def test_a_spread_over_prompts_is_counted_against_a_claim():
    seeds = {"a": [50.0, 50.1, 50.2], "b": [49.0, 49.2, 49.1]}
    assert SequentialTest(("a", "b"), (3,)).look(seeds)
    prompts = {"a": [53.0, 50.3, 47.0], "b": [49.1, 49.0, 49.2]}
    assert not SequentialTest(("a", "b"), (3,)).look(seeds, prompts=prompts)


def test_a_cell_that_was_stopped_takes_no_part_in_later_looks():
    test = SequentialTest(tuple("abc"), (2, 3))
    scores = np.array([[50.0, 50.1, 50.2], [49.9, 50.3, 50.0], [10.0, 10.1, 10.3]])
    # Of the two that beat it, the better one is named.
    assert [(one.cell, one.than) for one in test.look(scored(scores[:, :2]))] == [
        ("c", "b")
    ]
    assert test.at_work == ("a", "b")
    assert test.look(scored(scores)) == ()
    assert len(test.claims) == 1


def test_against_a_baseline_there_are_fewer_claims_and_none_against_others():
    scores = np.array(
        [[50.0, 50.3, 50.1], [90.0, 90.2, 90.1], [49.9, 50.2, 50.2], [10.0, 10.1, 10.3]]
    )
    test = SequentialTest(tuple("abcd"), (3,), baseline="a")
    assert test.possible == 3
    assert [(one.cell, one.than) for one in test.look(scored(scores))] == [("d", "a")]
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
    assert test._shared["seeds"].variance == pytest.approx(expected)


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
    wrong = found = 0
    for better in (0.0, 4.0):
        for _ in range(100):
            test = SequentialTest(tuple("abcde"), (2, 3, 4, 5), 0.1)
            scores = (
                rng.normal(size=(5, 5)) * 0.3
                + rng.normal(size=5)
                + better * np.eye(5)[:1].T
            )
            for look in test.looks:
                test.look({one: scored(scores)[one][:look] for one in test.at_work})
            wrong += bool(test.claims) and not better
            found += test.at_work == ("a",) and bool(better)
            assert all(one.than == "a" or not better for one in test.claims)
    # 0.1 of 100, and three standard deviations more.
    assert wrong <= 19
    assert found >= 95
