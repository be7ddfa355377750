"""Power of the tests of studies: which differences n seeds can show, and how many seeds a difference needs.

The model is that of `significance.py`. The estimated difference over n seeds is normally distributed around the
true difference, with variance V_items + V_seeds / n. The items are the same for all seeds, so more seeds do not
lower V_items. If the study has a sample of P prompts, V_prompts / P is added; more seeds do not lower this part
either. The test has only estimates of these variances. Each estimate, divided by the true variance, is
distributed as chi-square divided by its degrees of freedom (n - 1 for V_seeds), independently of the others. A
difference is significant if it exceeds its estimated standard error times Banerjee's critical value, which
depends on all these estimates.

For fixed estimates of the variances, the power is a probability of the normal distribution. The mean of this
probability over the estimates is computed by the trapezoidal rule in the logarithms of the standard deviations.
About 7 digits are right; 3 digits if only differences of more than 30 standard errors are significant, as with
two seeds and many comparisons. With one source of variance, the result is the power of the noncentral t
distribution.

Differences and standard deviations are in the unit of the score, levels are two-sided, powers are in (0, 1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import attrs
from sentbed.errors import RunError

from sentbed_report.statistics.estimated_difference import EstimatedDifference, Source
from sentbed_report.statistics.significance import Judged

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats

LEVEL = 0.05
POWER = 0.8

MOST = 10_000
"""Largest number of seeds, or of prompts, that is tried."""

_LEAST = 1e-100
"""Smallest standard deviation that is not 0; the square of a smaller one might be rounded to 0."""
_LEAST_LEVEL = 1e-6
_MOST_POWER = 0.9999
_FINEST = {1: (1 / 200,), 2: (1 / 40, 1 / 200), 3: (1 / 40, 1 / 40, 1 / 40)}
"""Number of sources of variance -> smallest step of the trapezoidal rule for each source, in the order items,
seeds, prompts. Smaller steps matter only if the true difference is more than 30 (items) or 150 (seeds) standard
errors. Only with two seeds are such differences needed."""
_BIN = 0.02
"""Width of the bins, in natural logarithms, in which values are merged before a third source of variance is
added."""
_TAIL = 1e-10
"""Probability of each of the two tails that the integral over an estimated variance leaves out."""


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
    prompts: float = 1
    """Number of prompts, at least 2 if `prompt_std` > 0; `math.inf` for the limit of many prompts."""

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
        """Return the sources of variance of the mean difference over `seeds` seeds; `seeds` may be `math.inf`.

        Raises:
            RunError: if `seeds` is below 1; or below 2 although seeds vary, since their variance cannot be
                estimated from one seed.
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
    """Number of seeds, or of prompts, with which a difference is significant with the required power."""

    seeds: int | None
    """The smallest sufficient number; None if there is no such number, or if it is above 10,000."""
    reason: str = ""
    """Why `seeds` is None; empty otherwise."""
    items_leave: float | None = None
    """If no number of seeds (or prompts) suffices because of the other sources of variance, such as the items:
    half the width of the confidence interval that infinitely many seeds (or prompts) would leave. Otherwise
    None."""
    others: str = "items"
    """Names of these other sources."""


def observed_spread(judged: Sequence[Judged]) -> tuple[Spread, int] | None:
    """Return the average spread of comparisons, and the most frequent number of seeds among them.

    Variances over seeds and over prompts are pooled, variances over items are averaged. The result is None if
    no comparison has two seeds or more, since the standard deviation over seeds is then unknown. It is also
    None if nothing varies.
    """
    of_seeds = []
    of_prompts = []
    of_items = []
    item_degrees = math.inf
    for comparison in judged:
        of_seeds.append((comparison.seed_variance, len(comparison.differences)))
        of_prompts.append((comparison.prompt_variance, len(comparison.prompts)))
        item_degrees = min(item_degrees, comparison.item_degrees)
        if comparison.item_variance is not None:
            of_items.append(comparison.item_variance)

    seed_variance, seeds = _pooled(of_seeds)
    prompt_variance, prompts = _pooled(of_prompts)
    if not seeds:
        return None

    item_variance = 0.0
    if of_items:
        item_variance = sum(of_items) / len(of_items)
    if seed_variance == item_variance == prompt_variance == 0:
        return None

    spread = Spread(
        math.sqrt(seed_variance),
        math.sqrt(item_variance),
        item_degrees,
        math.sqrt(prompt_variance),
        prompts or 1,
    )
    return spread, seeds


def _pooled(variances: Iterable[tuple[float | None, int]]) -> tuple[float, int]:
    """Return the pooled variance of samples, and their most frequent size; both are 0 without samples.

    Each sample is a pair of its variance and its size. Samples whose variance is None are left out.
    """
    squares = 0.0
    degrees = 0
    sizes: Counter[int] = Counter()
    for variance, size in variances:
        if variance is not None:
            sizes[size] += 1
            squares += variance * (size - 1)
            degrees += size - 1
    if not sizes:
        return 0.0, 0

    most_frequent = max(sizes, key=lambda size: (sizes[size], size))
    return squares / degrees, most_frequent


def power_of(
    spread: Spread,
    difference: float,
    seeds: float,
    level: float = LEVEL,
    comparisons: int = 1,
) -> float:
    """Return the probability that `with_test` finds a true difference significant with `seeds` seeds.

    `level` is the level of all `comparisons` with the baseline together; each comparison has an equal share of
    it (Bonferroni). This is the strictest step of Holm's correction, so the true power is at least the returned
    power.

    Raises:
        RunError: if an argument is out of its range.
    """
    level_of_each = _level_of_each(level, comparisons)
    _require_finite(difference)
    return _power_of_sources(spread.sources(seeds), difference, level_of_each)


def smallest_difference(
    spread: Spread,
    seeds: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> float:
    """Return the smallest true difference, > 0, that is significant with `seeds` seeds and this power.

    Raises:
        RunError: if an argument is out of its range.
    """
    level_of_each = _level_of_each(level, comparisons)
    _require_power(power, level_of_each)
    return _smallest_of_sources(spread.sources(seeds), power, level_of_each)


def seeds_needed(
    spread: Spread,
    difference: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> SeedsNeeded:
    """Return the smallest number of seeds with which a true difference is significant with this power.

    Raises:
        RunError: if an argument is out of its range.
    """
    least = 1
    if spread.seed_std > 0:
        least = 2
    stds = {"items": spread.item_std, "prompts": spread.prompt_std}
    names = ("seeds", _names_of_positive(stds))
    return _number_needed(
        spread.sources, least, names, difference, power, level, comparisons
    )


def prompts_needed(
    spread: Spread,
    difference: float,
    seeds: float,
    power: float = POWER,
    level: float = LEVEL,
    comparisons: int = 1,
) -> SeedsNeeded:
    """Return the smallest number of prompts with which a true difference is significant with this power.

    Raises:
        RunError: if an argument is out of its range.
    """

    def sources_with(prompts: float) -> tuple[Source, ...]:
        return attrs.evolve(spread, prompts=prompts).sources(seeds)

    least = 1
    if spread.prompt_std > 0:
        least = 2
    stds = {"items": spread.item_std, "seeds": spread.seed_std}
    names = ("prompts", _names_of_positive(stds))
    return _number_needed(
        sources_with, least, names, difference, power, level, comparisons
    )


def _names_of_positive(stds: Mapping[str, float]) -> str:
    """Return the names of the sources whose standard deviation is above 0, such as `items and seeds`."""
    return " and ".join(name for name, std in stds.items() if std > 0)


def _number_needed(
    sources_with: Callable[[float], tuple[Source, ...]],
    least: int,
    names: tuple[str, str],
    difference: float,
    power: float,
    level: float,
    comparisons: int,
) -> SeedsNeeded:
    """Return the smallest number of seeds or prompts, at least `least`, that gives the required power.

    `sources_with(number)` returns the sources of variance with this number. `names` has the name of what is
    counted (`seeds` or `prompts`) and the names of the other sources of variance.
    """
    level_of_each = _level_of_each(level, comparisons)
    _require_power(power, level_of_each)
    _require_finite(difference)
    name, others = names

    @cache
    def power_with(number: float) -> float:
        return _power_of_sources(sources_with(number), difference, level_of_each)

    if difference == 0:
        return SeedsNeeded(None, "there is no difference")

    if others and power_with(math.inf) <= power:
        rest = EstimatedDifference(0.0, sources_with(math.inf))
        reach = rest.error * rest.critical(level_of_each / 2)
        smallest = _smallest_of_sources(rest.sources, power, level_of_each)
        reason = f"the {others} alone leave ±{reach:.2g} and hide differences below {smallest:.2g}"
        return SeedsNeeded(None, f"no number of {name}: {reason}", reach, others)
    if least == 1:
        return SeedsNeeded(1)

    number = _first_number(power_with, power, least)
    if number is None:
        return SeedsNeeded(None, f"more than {MOST:,} {name}")
    return SeedsNeeded(number)


def _first_number(
    power_with: Callable[[float], float],
    power: float,
    least: int,
) -> int | None:
    """Return the smallest number from `least` to `MOST` that gives the power; None if there is none.

    The power grows with the number.
    """
    # Most needed numbers are small, so the upper end of the bracket [low, high] begins there, and is doubled.
    low = least
    high = least
    while power_with(high) < power:
        if high == MOST:
            return None
        low = high + 1
        high = min(2 * high, MOST)
    return low + bisect_left(range(low, high), power, key=power_with)


def _level_of_each(level: float, comparisons: int) -> float:
    """Return the level of each of several comparisons (Bonferroni). Raises `RunError` if it is out of range."""
    if comparisons < 1:
        raise RunError(f"the number of comparisons is {comparisons}; give 1 or more")
    if not _LEAST_LEVEL * comparisons <= level < 1:
        noun = "comparison"
        if comparisons > 1:
            noun = "comparisons"
        raise RunError(
            f"the level is {level} for {comparisons:,} {noun}; give a number between 0 and 1, at least "
            f"{_LEAST_LEVEL:g} for each comparison, such as {LEVEL}"
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


def _power_of_sources(
    sources: tuple[Source, ...],
    difference: float,
    level: float,
) -> float:
    """Return the probability that a true difference is significant at a two-sided level.

    `sources` are the true variances; see the module for the method.
    """
    import numpy as np
    from scipy import special

    error = EstimatedDifference(0.0, sources).error
    distance = abs(difference) / error
    # For each combination of estimates: its weight, and the square of the smallest significant difference.
    weights: Floats = np.ones(1)
    squares: Floats = np.zeros(1)

    for source, step in zip(sources, _FINEST[len(sources)], strict=True):
        ratios, weights_of_ratios = _estimated_variances(source.degrees, distance, step)
        critical = EstimatedDifference(0.0, (source,)).critical(level / 2)
        squares_of_source = source.variance * ratios * critical**2
        if source is sources[-1] and len(sources) > 2:
            # With a third source there would be millions of combinations.
            weights, squares = _merged_in_bins(weights, squares)
        weights = np.multiply.outer(weights, weights_of_ratios).ravel()
        squares = np.add.outer(squares, squares_of_source).ravel()

    threshold = np.sqrt(squares) / error
    powers = special.ndtr(distance - threshold) + special.ndtr(-distance - threshold)
    return float(np.clip(weights @ powers, 0.0, 1.0))


def _merged_in_bins(weights: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return the weight and the weighted mean of positive values in each bin of a logarithmic histogram."""
    import numpy as np

    number_of_bin = np.floor(np.log(values) / _BIN).astype(int)
    number_of_bin -= number_of_bin.min()
    weights_of_bins = np.bincount(number_of_bin, weights)
    sums = np.bincount(number_of_bin, weights * values)
    is_filled = weights_of_bins > 0
    merged_weights: Floats = weights_of_bins[is_filled].astype(float)
    return merged_weights, sums[is_filled] / merged_weights


def _estimated_variances(
    degrees: float,
    distance: float,
    finest: float,
) -> tuple[Floats, Floats]:
    """Return values of the ratio of an estimated variance to the true variance, and a weight for each value.

    `distance` is the true difference in standard errors; `finest` is the smallest step. The logarithm of an
    estimated standard deviation has a spread of about 1 / sqrt(2 `degrees`). If the estimate is fixed, the
    power as a function of this logarithm changes over a range of about 1 / (`distance` + 3). With steps below
    both, the trapezoidal rule converges fast.
    """
    import numpy as np
    from scipy import special

    if math.isinf(degrees):
        return np.ones(1), np.ones(1)
    half = degrees / 2
    low = 0.5 * math.log(special.gammaincinv(half, _TAIL) / half)
    high = 0.5 * math.log(special.gammainccinv(half, _TAIL) / half)
    spread = 1 / math.sqrt(2 * degrees)
    change = 1 / (3 + distance)
    step = max(finest, 0.8 * min(spread, change))
    steps = max(16, math.ceil((high - low) / step))

    log_stds = np.linspace(low, high, steps)
    ratios = np.exp(2 * log_stds)
    log_density = half * (2 * log_stds - ratios)
    weights = np.exp(log_density - log_density.max())
    return ratios, weights / weights.sum()


def _smallest_of_sources(
    sources: tuple[Source, ...],
    power: float,
    level: float,
) -> float:
    """Return the smallest true difference that is significant with probability `power`."""
    from scipy import optimize

    error = EstimatedDifference(0.0, sources).error

    def excess_power(errors: float) -> float:
        return _power_of_sources(sources, errors * error, level) - power

    high = 1.0
    while excess_power(high) < 0:
        high *= 2
    return float(optimize.brentq(excess_power, 0.0, high, xtol=1e-9)) * error
