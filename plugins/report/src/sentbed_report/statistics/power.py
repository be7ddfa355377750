"""Power of the tests of studies: which differences n seeds can show, and how many seeds a difference needs.

An estimated difference is normally distributed around the true one. Each source of its variance (items, seeds,
prompts) is only estimated: the estimate divided by the true variance is distributed as chi-square divided by
its degrees of freedom. A difference is significant if it exceeds Banerjee's critical value, which depends on
these estimates (`difference.py`). The power is the mean over simulated estimates of the probability that a
normal variable exceeds the critical value. The estimates are drawn by quantiles (a Latin hypercube), the same
ones in each call, so that the power is a smooth function of its arguments.

Differences and standard deviations are in the unit of the score, levels are two-sided, powers are in (0, 1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import RunError

from sentbed_report.statistics.difference import Difference, Source
from sentbed_report.statistics.levels import SIGNIFICANT

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats

POWER = 0.8

MOST = 10_000
"""Largest number of seeds that is tried."""

_DRAWS = 10_000
_SEED = 0


@attrs.frozen
class Spread:
    """Standard deviations of the difference between two cells, in the unit of the score.

    Raises:
        RunError: if a value is out of its range, or neither seeds nor items nor prompts vary.
    """

    seed_std: float
    """Standard deviation over seeds of the paired differences, >= 0."""
    item_std: float = 0.0
    """Standard error of the difference due to the choice of items, >= 0; 0 without items."""
    item_degrees: float = math.inf
    """Degrees of freedom of `item_std`, > 0: n - 1 with n items."""
    prompt_std: float = 0.0
    """Standard deviation over prompts of the paired differences, >= 0; 0 if prompts are not a sample."""
    prompts: int = 1
    """Number of prompts, at least 2 if `prompt_std` > 0."""

    def __attrs_post_init__(self) -> None:
        for name in ("seed_std", "item_std", "prompt_std"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise RunError(
                    f"the standard deviation `{name}` is {value}; give a finite number from 0"
                )
        if not self.seed_std + self.item_std + self.prompt_std:
            raise RunError(
                "neither seeds nor items vary; give `seed_std` or `item_std` above 0"
            )

    def difference(self, value: float, seeds: int) -> Difference:
        """Return a difference with the sources of variance that it has over `seeds` seeds.

        Raises:
            RunError: if `seeds` is below 1; or below 2 although seeds vary, since their variance cannot be
                estimated from one seed; or if the value is not finite.
        """
        if seeds < 1:
            raise RunError(f"the number of seeds is {seeds}; give 1 or more")
        if seeds < 2 and self.seed_std:
            raise RunError(
                "one seed does not show how much seeds differ; give 2 or more"
            )
        if not math.isfinite(value):
            raise RunError(f"the difference is {value}; give a finite number")

        sources = {}
        if self.item_std:
            sources["items"] = Source(self.item_std**2, self.item_degrees)
        if self.seed_std:
            sources["seeds"] = Source(self.seed_std**2 / seeds, seeds - 1)
        if self.prompt_std:
            variance = self.prompt_std**2 / self.prompts
            sources["prompts"] = Source(variance, self.prompts - 1)
        return Difference(value, sources)


def power_of(
    spread: Spread, difference: float, seeds: int, level: float = SIGNIFICANT
) -> float:
    """Return the probability that a true difference is significant with `seeds` seeds.

    `level` is that of the one comparison. With the level of the strictest step of Holm's correction, the true
    power is at least the returned power.

    Raises:
        RunError: if an argument is out of its range.
    """
    true = spread.difference(difference, seeds)
    return _power(_critical_values(true, level), true.value / true.error)


def smallest_difference(
    spread: Spread, seeds: int, level: float = SIGNIFICANT, power: float = POWER
) -> float:
    """Return the smallest true difference, > 0, that is significant with `seeds` seeds and this power.

    `power` is above `level`. Raises `RunError` if an argument is out of its range.
    """
    from scipy import optimize

    true = spread.difference(0.0, seeds)
    critical = _critical_values(true, level)

    def excess_power(distance: float) -> float:
        return _power(critical, distance) - power

    high = 1.0
    while excess_power(high) < 0:
        high *= 2
    return float(optimize.brentq(excess_power, 0.0, high)) * true.error


def seeds_needed(
    spread: Spread, difference: float, level: float = SIGNIFICANT, power: float = POWER
) -> int | None:
    """Return the smallest number of seeds with which a true difference is significant with this power.

    None if 10,000 seeds do not suffice: the difference is tiny, or the items or prompts hide it.

    Raises:
        RunError: if an argument is out of its range.
    """
    least = 1
    if spread.seed_std:
        least = 2

    def power_with(seeds: int) -> float:
        return power_of(spread, difference, seeds, level)

    if power_with(MOST) < power:
        return None
    return least + bisect_left(range(least, MOST), power, key=power_with)


def _critical_values(difference: Difference, level: float) -> Floats:
    """Return critical values, in true standard errors, for simulated estimates of the variances, `(draws,)`."""
    import numpy as np
    from scipy import special

    rng = np.random.default_rng(_SEED)
    quantiles = (np.arange(_DRAWS) + 0.5) / _DRAWS
    squares = np.zeros(_DRAWS)
    for source in difference.sources.values():
        ratios = np.ones(_DRAWS)
        if math.isfinite(source.degrees):
            half = source.degrees / 2
            ratios = special.gammaincinv(half, rng.permutation(quantiles)) / half
        critical = special.stdtrit(source.degrees, level / 2)
        squares += source.variance * ratios * critical**2
    critical_values: Floats = np.sqrt(squares) / difference.error
    return critical_values


def _power(critical_values: Floats, distance: float) -> float:
    """Return the probability that a difference of `distance` standard errors is found."""
    from scipy import special

    above = special.ndtr(distance - critical_values)
    below = special.ndtr(-distance - critical_values)
    return float((above + below).mean())
