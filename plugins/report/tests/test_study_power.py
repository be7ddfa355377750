from __future__ import annotations

import math

import attrs
import numpy as np
import pytest
from scipy import stats
from sentbed_report.statistics.power import (
    Spread,
    power_of,
    seeds_needed,
    smallest_difference,
)
from statsmodels.stats.power import TTestPower


def noncentral(distance, degrees, level):
    """Power of a two-sided t-test of an effect of `distance` standard errors."""
    critical = stats.t.isf(level / 2, degrees)
    return float(
        stats.nct.sf(critical, degrees, distance)
        + stats.nct.cdf(-critical, degrees, distance)
    )


# --- one source of variance --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.05, 0.005])
@pytest.mark.parametrize("difference", [0.0, 0.2, 1.0, 3.0, -3.0])
@pytest.mark.parametrize("seeds", [2, 3, 5, 30])
def test_seeds_alone_have_the_power_of_the_noncentral_t(seeds, difference, level):
    power = power_of(Spread(1.0), difference, seeds, level)
    expected = TTestPower().power(difference, seeds, level)
    assert power == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("degrees", [4, 41, 2000, math.inf])
def test_items_alone_have_the_power_of_their_own_degrees_whatever_the_number_of_seeds(
    degrees,
):
    spread = Spread(0.0, 0.5, degrees)
    powers = [power_of(spread, 1.2, seeds) for seeds in (1, 3, 10_000)]
    assert powers == pytest.approx(
        [noncentral(2.4, min(degrees, 1e9), 0.05)] * 3, abs=1e-5
    )


# --- two sources ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("difference", [0.4, 1.0, 2.5])
def test_the_seeds_needed_and_the_smallest_difference_are_those_of_statsmodels(
    difference,
):
    solved = TTestPower().solve_power(difference, None, 0.05, 0.8)
    assert seeds_needed(Spread(1.0), difference) == math.ceil(float(np.squeeze(solved)))
    for seeds in (3, 10):
        least = TTestPower().solve_power(None, seeds, 0.05, 0.9)
        # Twice the spread, twice the difference.
        assert smallest_difference(Spread(2.0), seeds, power=0.9) == pytest.approx(
            2 * least, rel=1e-4
        )


# --- items and seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 4, 10])
def test_without_a_difference_none_is_found_more_often_than_the_level_whatever_varies_more(
    seeds,
):
    for level in (0.05, 0.01):
        power = []
        for ratio in np.geomspace(1e-3, 10, 5):
            for degrees in (10, 1000, math.inf):
                spread = Spread(math.sqrt(seeds), math.sqrt(ratio), degrees)
                power.append(power_of(spread, 0.0, seeds, level))
        assert max(power) < level * 1.02
        assert max(power) > 0.95 * level


@pytest.mark.parametrize("spread", [Spread(0.7, 0.1, 400), Spread(0.7, 0.2)])
def test_the_seeds_needed_are_just_enough(spread):
    for difference in (0.7, 1.0, 3.0):
        seeds = seeds_needed(spread, difference)
        assert power_of(spread, difference, seeds) >= 0.8
        assert seeds == 2 or power_of(spread, difference, seeds - 1) < 0.8


def test_the_smallest_difference_has_just_that_power():
    spread = Spread(0.5, 0.2, 100)
    least = smallest_difference(spread, 3, 0.0125, 0.9)
    assert power_of(spread, least, 3, 0.0125) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("spread", "difference", "seeds"),
    [
        # The items are known: with infinitely many seeds, (1.96 + 0.84) x 0.2 = 0.56 is found.
        (Spread(0.3, 0.2), 0.5, None),
        (Spread(0.0, 0.2), 0.6, 1),
        (Spread(1.0), 1e-6, None),
        (Spread(1.0), 0.0, None),
        # More seeds are no more prompts.
        (Spread(0.5, 0.1, 199, 1.0, 4), 1.5, None),
    ],
)
def test_no_number_of_seeds_finds_what_items_or_prompts_hide(spread, difference, seeds):
    assert seeds_needed(spread, difference) == seeds


# --- prompts -----------------------------------------------------------------------------------------------


def simulated_power(spread, difference, seeds, level, studies):
    """Share of simulated studies in which the difference exceeds Banerjee's critical value."""
    rng = np.random.default_rng(0)
    prompts = int(spread.prompts)
    true = [
        (spread.item_std**2, spread.item_degrees),
        (spread.seed_std**2 / seeds, seeds - 1),
        (spread.prompt_std**2 / prompts, prompts - 1),
    ]
    error = math.sqrt(sum(variance for variance, _ in true))
    estimates = difference + error * rng.standard_normal(studies)
    squares = np.zeros(studies)
    for variance, degrees in true:
        if variance == 0:
            continue
        drawn = variance * rng.chisquare(degrees, studies) / degrees
        squares += drawn * stats.t.isf(level / 2, degrees) ** 2

    return float((abs(estimates) > np.sqrt(squares)).mean())


@pytest.mark.parametrize(
    ("spread", "difference", "seeds"),
    [
        (Spread(1.0, 0.3, 199, 0.8, 4), 2.5, 3),
        (Spread(0.3, 0.2, 39, 1.0, 3), 4.0, 5),
        (Spread(0.0, 0.5, 199, 0.5, 8), 2.0, 1),
        (Spread(1.0, 0.0, math.inf, 1.0, 2), 6.0, 2),
        (Spread(0.5, 0.2, 39, 0.5, 3), 0.0, 3),
        (Spread(1.2, 1.0, 40), 3.7, 3),
        (Spread(2.2, 1.0, 500), 5.0, 5),
    ],
)
def test_the_power_over_prompts_seeds_and_items_is_that_of_simulated_studies(
    spread, difference, seeds
):
    if spread.seed_std == 0:
        expected = simulated_power(
            attrs.evolve(spread, seed_std=1e-9), difference, 2, 0.05, 200_000
        )
    else:
        expected = simulated_power(spread, difference, seeds, 0.05, 200_000)
    assert power_of(spread, difference, seeds) == pytest.approx(expected, abs=0.005)


def by_share(spread, difference, seeds, level):
    """Power by another decomposition: over the items' share of the sum of both chi-squares.

    The share is independent of the sum, which is a chi-square over the sum of the degrees: given the share,
    the test is a noncentral t.
    """
    of_items = spread.item_degrees
    of_seeds = seeds - 1
    degrees = of_items + of_seeds
    items = spread.item_std**2
    repeated = spread.seed_std**2 / seeds
    error = math.sqrt(items + repeated)
    critical_of_items = float(stats.t.isf(level / 2, of_items))
    critical_of_seeds = float(stats.t.isf(level / 2, of_seeds))

    # With share = sin^2, the integrand is smooth at both ends.
    places, weights = np.polynomial.legendre.leggauss(800)
    angles = (places + 1) * math.pi / 4
    share = np.sin(angles) ** 2
    density = stats.beta.pdf(share, of_items / 2, of_seeds / 2)
    density *= np.sin(2 * angles)
    items = items * share / of_items
    repeated = repeated * (1 - share) / of_seeds
    squares = items * critical_of_items**2 + repeated * critical_of_seeds**2
    critical = np.sqrt(squares / (items + repeated))
    bound = critical * np.sqrt(degrees * (items + repeated)) / error
    distance = difference / error
    above = stats.nct.sf(bound, degrees, distance)
    below = stats.nct.sf(bound, degrees, -distance)
    return float((weights * math.pi / 4 * density) @ (above + below))


@pytest.mark.parametrize(
    ("spread", "difference", "seeds", "level"),
    [
        (Spread(1.2, 1.0, 40), 3.7, 3, 0.05),
        (Spread(2.0, 1.0, 9), 3.0, 10, 0.01),
        (Spread(2.2, 1.0, 500), 5.0, 5, 0.005),
        (Spread(0.3, 1.0, 150), 2.5, 3, 0.05),
    ],
)
def test_both_sources_agree_with_the_integral_over_their_share(
    spread, difference, seeds, level
):
    expected = by_share(spread, difference, seeds, level)
    assert 0.1 < expected < 0.99
    power = power_of(spread, difference, seeds, level)
    assert power == pytest.approx(expected, abs=1e-3)
