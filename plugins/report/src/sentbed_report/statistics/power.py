"""Power of the tests of studies: which differences a number of seeds sees, before they are run.

The model is that of `significance.py`. The estimated difference over n seeds is normal around the true one,
with variance V_items + V_seeds / n: the items are the same for all seeds, so that no number of seeds gives
less than V_items. Where prompts vary, too, V_prompts over their number is added, which no number of seeds
lowers either. All of them are estimated, V_seeds with n - 1 degrees of freedom, V_items with its own,
and each estimate divided by its variance is an independent chi-square over its degrees. A difference is found
if it exceeds its estimated standard error times Banerjee's critical value, which depends on both
estimates.

Given the two estimates, the power is that of a normal variable; its mean over them is taken by the
trapezoidal rule in the logarithms of their standard deviations, to about 7 digits; to 3 where only
differences of more than 30 standard errors are found, as by two seeds with many comparisons. With one source
of variance this is the noncentral t distribution. Differences and standard deviations have the unit of the
score, levels are two-sided, powers are in (0, 1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import RunError
from sentbed.statistics import EstimatedDifference, Source

from sentbed_report.statistics.significance import Judged

if TYPE_CHECKING:
    from sentbed.statistics.named_statistics import Floats

LEVEL = 0.05
POWER = 0.8
MOST = 10_000
"""Largest number of seeds that `seeds_needed` names."""

_LEAST = 1e-100
"""Smallest standard deviation: its square is a number, too."""
_LEAST_LEVEL = 1e-6
_MOST_POWER = 0.9999
_FINEST = {1: (1 / 200,), 2: (1 / 40, 1 / 200), 3: (1 / 40, 1 / 40, 1 / 40)}
"""Number of sources -> smallest steps of the trapezoidal rule, for items, seeds and prompts. Finer ones
matter only for differences of more than 30 and 150 standard errors, which only two seeds need; there, the
integral over the seeds is smooth in what the items give."""
_BIN = 0.02
"""Width of the bins, in logarithms, in which critical values are merged before a third source."""
_TAIL = 1e-10
"""Probability on each side that the integral leaves out."""


@attrs.frozen
class Spread:
    """Spread of an estimated difference between two cells, in the unit of the score.

    Raises:
        RunError: if a value is out of its range, or both standard deviations are 0.
    """

    seed_std: float
    """Standard deviation over seeds of the paired differences, >= 0."""
    item_std: float = 0.0
    """Standard error of the difference due to the choice of items, >= 0; 0 without items."""
    item_degrees: float = math.inf
    """Degrees of freedom of `item_std`, > 0: with n items, n - 1."""
    prompt_std: float = 0.0
    """Standard deviation over prompts of the paired differences, >= 0; 0 where prompts are no source."""
    prompts: float = 1
    """Number of prompts; 2 or more where they differ. `math.inf` for as many as there are."""

    def __attrs_post_init__(self) -> None:
        stds = {
            "seed_std": self.seed_std,
            "item_std": self.item_std,
            "prompt_std": self.prompt_std,
        }
        for name, value in stds.items():
            if value != 0 and not _LEAST <= value <= 1 / _LEAST:
                raise RunError(
                    f"the standard deviation `{name}` is {value}; give a number from {_LEAST} to "
                    f"{1 / _LEAST}, or 0"
                )
        if not any(stds.values()):
            raise RunError(
                "neither seeds nor items vary; give `seed_std` or `item_std` above 0"
            )
        if self.prompt_std > 0 and not self.prompts >= 2:
            raise RunError(
                f"the number of prompts is {self.prompts}, which does not show how much prompts differ; "
                "give 2 or more"
            )
        if not self.item_degrees > 0:
            raise RunError(
                f"`item_degrees` is {self.item_degrees}; give a number above 0"
            )

    def sources(self, seeds: float) -> tuple[Source, ...]:
        """Return the sources of variance of the mean difference over so many seeds; also infinitely many.

        Raises:
            RunError: if there is less than one seed, or one although seeds differ: it does not show by how
                much.
        """
        if not seeds >= 1:
            raise RunError(f"the number of seeds is {seeds}; give 1 or more")
        if seeds < 2 and self.seed_std > 0:
            raise RunError(
                "one seed does not show how much seeds differ; give 2 or more"
            )
        sources = []
        if self.item_std > 0:
            sources.append(Source(self.item_std**2, self.item_degrees))
        if self.seed_std > 0 and not math.isinf(seeds):
            sources.append(Source(self.seed_std**2 / seeds, seeds - 1))
        if self.prompt_std > 0 and not math.isinf(self.prompts):
            sources.append(Source(self.prompt_std**2 / self.prompts, self.prompts - 1))
        return tuple(sources)


@attrs.frozen
class SeedsNeeded:
    """Number of seeds, or of prompts, with which a difference is found."""

    seeds: int | None
    """Smallest number; None if there is none up to 10,000."""
    reason: str = ""
    """Why there is none."""
    items_leave: float | None = None
    """Where the other sources, such as the items, are the reason: half the width of the interval that
    infinitely many seeds have."""
    others: str = "items"
    """Which sources these are."""


def observed_spread(judged: Sequence[Judged]) -> tuple[Spread, int] | None:
    """Return the spread that comparisons show, and the number of seeds that most of them have.

    Over seeds and prompts it is pooled, over items the root of the mean variance. None without a comparison
    under two seeds or more, since one does not show how much seeds differ, or where nothing varies.
    """
    seed_variance, seeds = _pooled(
        (each.seed_variance, len(each.differences)) for each in judged
    )
    prompt_variance, prompts = _pooled(
        (each.prompt_variance, len(each.prompts)) for each in judged
    )
    if not seeds:
        return None
    of_items = [each.item_variance for each in judged if each.item_variance is not None]
    item_variance = sum(of_items) / len(of_items) if of_items else 0.0
    if seed_variance == item_variance == prompt_variance == 0:
        return None
    item_degrees = min(each.item_degrees for each in judged)
    spread = Spread(
        math.sqrt(seed_variance),
        math.sqrt(item_variance),
        item_degrees,
        math.sqrt(prompt_variance),
        prompts or 1,
    )
    return spread, seeds


def _pooled(variances: Iterable[tuple[float | None, int]]) -> tuple[float, int]:
    """Return the pooled variance of samples, each with its size, and the size that most have.

    Both are 0 without a sample of two or more, of which a variance is known.
    """
    squares = 0.0
    sizes: Counter[int] = Counter()
    for variance, size in variances:
        if variance is not None:
            sizes[size] += 1
            squares += variance * (size - 1)
    if not sizes:
        return 0.0, 0
    most = max(sizes, key=lambda size: (sizes[size], size))
    return squares / sum((size - 1) * number for size, number in sizes.items()), most


def power_of(
    spread: Spread,
    difference: float,
    seeds: float,
    level: float = LEVEL,
    comparisons: int = 1,
) -> float:
    """Return the probability that `with_test` finds a true difference with so many seeds.

    `level` is that of all `comparisons` with the baseline; each has its share (Bonferroni), which is the
    strictest step of Holm's correction, so that the power is at least that.

    Raises:
        RunError: if an argument is out of its range.
    """
    level_of_one = _level_of_one(level, comparisons)
    _require_finite(difference)
    return _power(spread.sources(seeds), difference, level_of_one)


def smallest_difference(
    spread: Spread,
    seeds: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> float:
    """Return the smallest true difference, > 0, that so many seeds find with probability `power`.

    Raises:
        RunError: if an argument is out of its range.
    """
    level_of_one = _level_of_one(level, comparisons)
    _require_power(power, level_of_one)
    return _smallest(spread.sources(seeds), power, level_of_one)


def seeds_needed(
    spread: Spread,
    difference: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> SeedsNeeded:
    """Return the smallest number of seeds that find a true difference with probability `power`.

    Raises:
        RunError: if an argument is out of its range.
    """
    stds = {"items": spread.item_std, "prompts": spread.prompt_std}
    others = " and ".join(name for name, std in stds.items() if std > 0)
    least = 2 if spread.seed_std > 0 else 1
    return _needed(
        spread.sources, least, ("seeds", others), difference, power, level, comparisons
    )


def prompts_needed(
    spread: Spread,
    difference: float,
    seeds: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> SeedsNeeded:
    """Return the smallest number of prompts that find a true difference with probability `power`.

    Raises:
        RunError: if an argument is out of its range.
    """

    def sources_with(prompts: float) -> tuple[Source, ...]:
        return attrs.evolve(spread, prompts=prompts).sources(seeds)

    stds = {"items": spread.item_std, "seeds": spread.seed_std}
    others = " and ".join(name for name, std in stds.items() if std > 0)
    least = 2 if spread.prompt_std > 0 else 1
    return _needed(
        sources_with, least, ("prompts", others), difference, power, level, comparisons
    )


def _needed(
    sources_with: Callable[[float], tuple[Source, ...]],
    least: int,
    names: tuple[str, str],
    difference: float,
    power: float,
    level: float,
    comparisons: int,
) -> SeedsNeeded:
    """Return the smallest number, from `least`, with whose sources of variance a difference is found.

    `names` are those of what is counted, and of the other sources.
    """
    level_of_one = _level_of_one(level, comparisons)
    _require_power(power, level_of_one)
    _require_finite(difference)
    counted, others = names

    @cache
    def power_with(number: float) -> float:
        return _power(sources_with(number), difference, level_of_one)

    if difference == 0:
        return SeedsNeeded(None, "there is no difference")
    if others and power_with(math.inf) <= power:
        rest = EstimatedDifference(0.0, sources_with(math.inf))
        reach = rest.error * rest.critical(level_of_one / 2)
        smallest = _smallest(rest.sources, power, level_of_one)
        reason = f"the {others} alone leave ±{reach:.2g} and hide differences below {smallest:.2g}"
        return SeedsNeeded(None, f"no number of {counted}: {reason}", reach, others)
    if least == 1:
        return SeedsNeeded(1)
    guess = _about_needed(sources_with, least, difference, power, level_of_one)
    number = _first_number(power_with, power, least, guess)
    if number is None:
        return SeedsNeeded(None, f"more than {MOST:,} {counted}")
    return SeedsNeeded(number)


def _about_needed(
    sources_with: Callable[[float], tuple[Source, ...]],
    least: int,
    difference: float,
    power: float,
    level: float,
) -> int:
    """Return about how many are needed, from `least` to `MOST`, as if the estimated error were the true one."""
    from scipy import special

    beyond = float(special.ndtri(power))

    def is_found_with(number: int) -> bool:
        estimate = EstimatedDifference(0.0, sources_with(number))
        reach = estimate.critical(level / 2) + beyond
        return reach * estimate.error <= abs(difference)

    numbers = range(least, MOST)
    return least + bisect_left(numbers, True, key=is_found_with)


def _first_number(
    power_with: Callable[[float], float], power: float, least: int, guess: int
) -> int | None:
    """Return the first number from `least` to `MOST` that has the power, which grows with the number.

    It is looked for around `guess` first. None if there is no such number.
    """
    reach = 1
    low, high = max(least, guess - reach), min(guess + reach, MOST)
    while power_with(high) < power:
        if high == MOST:
            return None
        reach *= 4
        low, high = high + 1, min(high + reach, MOST)
    while low > least and power_with(low) >= power:
        reach *= 4
        low, high = max(least, low - reach), low
    numbers = range(low, high)
    return low + bisect_left(numbers, power, key=power_with)


def _level_of_one(level: float, comparisons: int) -> float:
    """Return the level of each of several comparisons."""
    if comparisons < 1:
        raise RunError(f"the number of comparisons is {comparisons}; give 1 or more")
    if not _LEAST_LEVEL * comparisons <= level < 1:
        noun = "comparison" if comparisons == 1 else "comparisons"
        raise RunError(
            f"the level is {level} for {comparisons:,} {noun}; give a number between 0 and 1, at "
            f"least {_LEAST_LEVEL:g} each, such as {LEVEL}"
        )
    return level / comparisons


def _require_power(power: float, level: float) -> None:
    if not level < power <= _MOST_POWER:
        raise RunError(
            f"the power is {power}; give a number above the level of the test, {level:g}, up to "
            f"{_MOST_POWER}, such as {POWER}"
        )


def _require_finite(difference: float) -> None:
    if not math.isfinite(difference):
        raise RunError(f"the difference is {difference}; give a finite number")


def _power(sources: tuple[Source, ...], difference: float, level: float) -> float:
    """Return the probability that a difference is found at a two-sided level."""
    import numpy as np
    from scipy import special

    error = EstimatedDifference(0.0, sources).error
    distance = abs(difference) / error
    # Weight of each combination of estimates, with the square of what a difference must exceed.
    weights: Floats = np.ones(1)
    squares: Floats = np.zeros(1)
    for source, step in zip(sources, _FINEST[len(sources)], strict=True):
        ratios, weights_of_ratios = _estimates(source.degrees, distance, step)
        critical = EstimatedDifference(0.0, (source,)).critical(level / 2)
        if source is sources[-1] and len(sources) > 2:
            # With a third source there would be millions of combinations.
            weights, squares = _merged(weights, squares)
        weights = np.multiply.outer(weights, weights_of_ratios).ravel()
        squares = np.add.outer(squares, source.variance * ratios * critical**2).ravel()
    threshold = np.sqrt(squares) / error
    powers = special.ndtr(distance - threshold) + special.ndtr(-distance - threshold)
    return float(np.clip(weights @ powers, 0.0, 1.0))


def _merged(weights: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return weights and weighted means of positive values, merged where they are nearly the same."""
    import numpy as np

    place = np.floor(np.log(values) / _BIN).astype(int)
    place -= place.min()
    total = np.bincount(place, weights)
    products = np.bincount(place, weights * values)
    is_filled = total > 0
    of_bins: Floats = total[is_filled].astype(float)
    return of_bins, products[is_filled] / of_bins


def _estimates(degrees: float, distance: float, finest: float) -> tuple[Floats, Floats]:
    """Return values of an estimated variance over the true one, and their weights.

    The standard deviation's logarithm has a spread of about 1 / sqrt(2 degrees). The power given an estimate
    is that of a normal variable at `distance` standard errors, with tails of about 3 that matter: it changes
    over 1 / (distance + 3) of the logarithm. The trapezoidal rule converges fast below both.
    """
    import numpy as np
    from scipy import special

    if math.isinf(degrees):
        return np.ones(1), np.ones(1)
    half = degrees / 2
    low = 0.5 * math.log(special.gammaincinv(half, _TAIL) / half)
    high = 0.5 * math.log(special.gammainccinv(half, _TAIL) / half)
    step = max(finest, 0.8 * min(1 / math.sqrt(2 * degrees), 1 / (3 + distance)))
    place = np.linspace(low, high, max(16, math.ceil((high - low) / step)))
    ratios = np.exp(2 * place)
    logarithm = half * (2 * place - ratios)
    weights = np.exp(logarithm - logarithm.max())
    return ratios, weights / weights.sum()


def _smallest(sources: tuple[Source, ...], power: float, level: float) -> float:
    from scipy import optimize

    error = EstimatedDifference(0.0, sources).error

    def lacking(errors: float) -> float:
        return _power(sources, errors * error, level) - power

    high = 1.0
    while lacking(high) < 0:
        high *= 2
    return float(optimize.brentq(lacking, 0.0, high, xtol=1e-9)) * error
