"""The significance test of a difference between cells, over seeds, prompts and items at once.

A study repeats a cell with several seeds, and perhaps several prompts, and scores every run on the same items.
A difference may be due to chance in each of these: other seeds, other prompts or other items would have given
another one. A test that considers only one of them has too many false positives. So:

- d(s, p) is the score of one cell minus that of another under the same seed and prompt; the estimate is its mean;
- the mean has a part of its variance from each replicate dimension: the sample variance, over the seeds, of the
  mean over all else, divided by the number of seeds S, with S - 1 degrees of freedom; likewise over prompts;
- the part over items is computed from the influence of each item (`sampling_error.py`), averaged over the runs.
  The difficulty that an item has for both cells cancels. Items of one cluster, such as pairs from one passage,
  count together, and an item of several tasks counts once. With n items it has n - 1 degrees of freedom;
- what one seed does to one item is in both parts, and is counted once: the part of the items' variance that
  differs between the seeds is subtracted, at most the seeds' part. With prompts, nothing is subtracted, since a
  test that subtracts all interactions had up to 10 % false positives at a level of 5 %;
- the critical value is Banerjee's (1960): the root mean square of the critical values of Student's t of the
  parts, weighted by their variances. With this value, the error rate is below the level for all true variances.
  With Satterthwaite's degrees of freedom for the sum, it is 12 % at 5 % with two or three seeds that differ more
  than the items. With one part, it is the critical value of Student's t.

With one seed and one prompt, the test is a paired t-test over the items alone. Without items, it is one over the
seeds, and needs at least two. Scores that do not pair are refused: of other items, or other prompts, or without
a seed in common; and so are missing ones.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, TypeVar

import attrs
from sentbed.errors import RunError

from sentbed_report.statistics.cell_scores import CellScores
from sentbed_report.statistics.levels import CONFIDENCE, SIGNIFICANT
from sentbed_report.statistics.same_items import require_same_items
from sentbed_report.statistics.sampling_error import ItemComponents

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats

REPLICATES = ("seeds", "prompts")
"""Dimensions over which a score is repeated."""

_ORDER = ("items", "prompts", "seeds")
_LEAST = 1e-300
"""Smallest p-value."""
_ROUNDING = 1e-9
"""Largest difference, in the unit of the score, that is attributed to rounding."""

Key = TypeVar("Key", bound=Hashable)


@attrs.frozen
class Source:
    """A source of an estimate's variance, such as the items or the seeds."""

    variance: float
    """Variance of the estimate due to this source, >= 0."""
    degrees: float
    """Degrees of freedom of the variance; `math.inf` if it is known exactly."""


@attrs.frozen
class Difference:
    """An estimated difference of two cells, in the unit of the score."""

    value: float
    sources: Mapping[str, Source]
    """Name (`items`, `seeds` or `prompts`) -> part of the variance; the parts are independent."""

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return math.sqrt(sum(source.variance for source in self.sources.values()))

    def half_width(self, level: float) -> float:
        """Return half the width of the interval at a two-sided level in (0, 1], by Banerjee (1960)."""
        from scipy import special

        half_widths = []
        for source in self.sources.values():
            if source.variance > 0:
                critical = float(special.stdtrit(source.degrees, level / 2))
                half_widths.append(math.sqrt(source.variance) * critical)
        # The squares of tiny levels' critical values are beyond the range of floats.
        return math.hypot(*half_widths)

    def interval(self, level: float = 1 - CONFIDENCE) -> tuple[float, float]:
        """Return the confidence interval at a two-sided level, by default that of 95 %."""
        half_width = self.half_width(level)
        return self.value - half_width, self.value + half_width

    @property
    def untested(self) -> str:
        """Why the difference has no p-value; empty if it has one."""
        if not self.sources:
            return "there is one seed, and the score has no items"
        if self.error <= _ROUNDING < abs(self.value):
            return "every item and every seed has the same difference"
        return ""

    @cached_property
    def p_value(self) -> float | None:
        """Two-sided level at which the difference is critical, from 1e-300; None if it is `untested`."""
        from scipy import optimize

        if self.untested:
            return None
        if abs(self.value) <= _ROUNDING or self.error <= _ROUNDING:
            return 1.0

        def excess(logarithm: float) -> float:
            return self.half_width(math.exp(logarithm)) - abs(self.value)

        lowest = math.log(_LEAST)
        if excess(lowest) <= 0:
            return _LEAST
        return math.exp(optimize.brentq(excess, lowest, 0.0, xtol=1e-12))

    @property
    def varying(self) -> tuple[str, ...]:
        """Names of the sources that vary; if none does, of all sources."""
        names = [name for name, source in self.sources.items() if source.variance > 0]
        return tuple(names or self.sources)

    @property
    def stds(self) -> dict[str, float]:
        """Source -> standard deviation over single seeds or prompts; of items, the standard error."""
        stds = {}
        for name, source in self.sources.items():
            variance = source.variance
            if name in REPLICATES:
                variance *= source.degrees + 1
            stds[name] = math.sqrt(variance)
        return stds


def difference(
    before: CellScores, after: CellScores, random: Collection[str] = REPLICATES
) -> Difference:
    """Return the difference `after` minus `before`; for `random` and errors, see `weighted_sum`."""
    return weighted_sum([(-1.0, before), (1.0, after)], random)


def weighted_sum(
    terms: Sequence[tuple[float, CellScores]], random: Collection[str] = REPLICATES
) -> Difference:
    """Return a weighted sum of the scores of cells, such as a difference, or the effect of a label.

    Only seeds that all cells have are used, unless each cell has one. `random` names the replicate dimensions
    that are samples: without `prompts`, the result holds for the mean over these very prompts.

    Raises:
        RunError: if the cells share no seed, or are not under the same prompts or on the same items, or if a
            score is not finite, such as a degenerate one.
    """
    import numpy as np

    cells = [scores for _, scores in terms]
    seeds_of_cells = _paired_seeds(cells)
    prompts = cells[0].prompts
    for scores in cells:
        if set(scores.prompts) != set(prompts):
            raise RunError(
                "the scores are not under the same prompts, so they cannot be compared"
            )
    shape = (len(seeds_of_cells[0]), len(prompts))

    first_run = (seeds_of_cells[0][0], prompts[0])
    values = np.zeros(shape)
    items: list[Floats] = []
    for (weight, scores), seeds in zip(terms, seeds_of_cells, strict=True):
        runs = list(product(seeds, prompts))
        of_runs = np.array([scores.value(run) for run in runs])
        values += weight * of_runs.reshape(shape)

        components = []
        for run in runs:
            require_same_items(cells[0].of_runs[first_run], scores.of_runs[run])
            components_of_run = scores.components[run]
            if components_of_run is not None:
                components.append(components_of_run.values)
        if len(components) == len(runs):
            items.append(weight * np.array(components))

    if not np.isfinite(values).all():
        raise RunError("a score is not finite")
    if len(items) < len(cells):
        return estimate(values, None, None, random)
    components_of_sum = np.sum(items, axis=0).reshape(*shape, -1)
    return estimate(values, components_of_sum, cells[0].components[first_run], random)


def _paired_seeds(cells: Sequence[CellScores]) -> list[tuple[int, ...]]:
    """Return the seeds of each cell that are compared: those that all cells have.

    Cells of one seed each are compared whatever their seeds, such as two runs that were not started as a study.
    """
    if all(len(scores.seeds) == 1 for scores in cells):
        return [scores.seeds for scores in cells]

    seeds = cells[0].seeds
    for scores in cells:
        seeds = tuple(seed for seed in seeds if seed in scores.seeds)
    if not seeds:
        raise RunError("the cells have no seed in common")
    return [seeds] * len(cells)


def estimate(
    values: Floats,
    components: Floats | None,
    layout: ItemComponents | None,
    random: Collection[str] = REPLICATES,
) -> Difference:
    """Return the mean of differences, with its sources of variance.

    Args:
        values: The differences, `(seeds, prompts)`.
        components: Components of their items (`sampling_error.py`), `(seeds, prompts, components)`; None without
            items.
        layout: What the components belong to; None without items.
        random: Names of the replicate dimensions that are samples.
    """
    sources = {}

    for axis, name in enumerate(REPLICATES):
        means = values.mean(axis=1 - axis)
        if name in random and len(means) > 1:
            variance = 0.0
            if means.max() - means.min() > _ROUNDING:
                variance = float(means.var(ddof=1)) / len(means)
            sources[name] = Source(variance, len(means) - 1)

    if components is not None and layout is not None:
        of_seeds = components.mean(axis=1)
        mean = of_seeds.mean(axis=0)
        variance = layout.variance(mean)
        if sources.keys() == {"seeds"}:
            seeds = len(of_seeds)
            interaction = sum(layout.variance(of_seed - mean) for of_seed in of_seeds)
            interaction /= seeds * (seeds - 1)
            variance = max(0.0, variance - min(interaction, sources["seeds"].variance))
        sources["items"] = Source(variance, layout.degrees(mean))
    return Difference(float(values.mean()), sources)


@attrs.frozen
class Judged:
    """Test of a difference as one of a family, or why there is none."""

    estimate: Difference | None = None
    reason: str = ""
    """Why there is no p-value; empty if there is one."""
    corrected: float | None = None
    """The p-value after Holm's correction over its family, such as the cells of the column; None before it."""
    level: float = SIGNIFICANT
    """Share of the family's level, 0.05, that the test has: intervals at this level hold for the whole family."""

    @property
    def tested(self) -> Difference | None:
        """The estimate, if it has a p-value; None if there is a `reason`."""
        return None if self.reason else self.estimate

    @property
    def difference(self) -> float | None:
        """The difference, in the unit of the score; None if the cells could not be compared."""
        return None if self.estimate is None else self.estimate.value

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value before the correction; None if there is a `reason`."""
        return None if self.estimate is None else self.estimate.p_value

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the difference; None without a p-value."""
        return None if self.tested is None else self.tested.interval()

    @property
    def equal_within(self) -> float | None:
        """Smallest margin within which the scores are equivalent, in their unit; None without a p-value.

        It is the farther end of the 90 % interval: two one-sided tests at 5 % reject all differences beyond it
        (Schuirmann, 1987). The test's share of the level replaces the 5 %, as in the first step of Holm's
        correction, so that the margins hold for the whole family.
        """
        if self.tested is None:
            return None
        low, high = self.tested.interval(2 * self.level)
        return max(-low, high)

    @property
    def basis(self) -> str:
        """Sources of variance that the test considers, such as `items and seeds`; empty without a p-value."""
        return listed_sources([self])

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 0.05."""
        return self.corrected is not None and self.corrected < SIGNIFICANT


def listed_sources(tests: Iterable[Judged]) -> str:
    """Return what tests are over, such as `items, prompts and seeds`; empty without tests."""
    varying: set[str] = set()
    for test in tests:
        if test.tested is not None:
            varying.update(test.tested.varying)
    names = [name for name in _ORDER if name in varying]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def judge(
    terms: Sequence[tuple[float, CellScores]], random: Collection[str] = REPLICATES
) -> Judged:
    """Return the test of a weighted sum of scores, or why there is none; see `weighted_sum`."""
    try:
        estimated = weighted_sum(terms, random)
    except RunError as error:
        return Judged(reason=str(error))
    return Judged(estimated, estimated.untested)


def corrected(
    family: Mapping[Key, Judged], planned: Collection[Key] = ()
) -> dict[Key, Judged]:
    """Return the tests of a family with their p-values corrected: no false one among them in 95 % of studies.

    `planned` are the comparisons with a baseline, for which the study was made. They share one half of the level,
    the other tests the other half, so that many further pairs do not hide what the study is about.
    """
    p_values = {}
    for key, test in family.items():
        if test.p_value is not None:
            p_values[key] = test.p_value

    number_planned = sum(key in planned for key in p_values)
    number_others = len(p_values) - number_planned
    weights = {}
    for key in p_values:
        if not number_planned or not number_others:
            weights[key] = 1 / len(p_values)
        elif key in planned:
            weights[key] = 0.5 / number_planned
        else:
            weights[key] = 0.5 / number_others

    result = dict(family)
    for key, p_value in holm(p_values, weights).items():
        level = SIGNIFICANT * weights[key]
        result[key] = attrs.evolve(family[key], corrected=p_value, level=level)
    return result


def holm(
    p_values: Mapping[Key, float], weights: Mapping[Key, float] | None = None
) -> dict[Key, float]:
    """Return the p-values of a family, corrected by Holm's method (1979), in the order of `p_values`.

    `weights` are the shares of the level that the tests have, by default equal.
    """
    if weights is None:
        weights = dict.fromkeys(p_values, 1.0)

    result = dict(p_values)
    remaining = sum(weights.values())
    largest = 0.0
    for key in sorted(p_values, key=lambda key: p_values[key] / weights[key]):
        adjusted = min(1.0, p_values[key] * remaining / weights[key])
        largest = max(largest, adjusted)
        result[key] = largest
        remaining -= weights[key]
    return result
