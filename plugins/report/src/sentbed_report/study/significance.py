"""Whether a cell differs from the baseline: over the seeds and the items of one column together.

A study repeats a cell with several seeds and scores every run on the same items. A difference may be due to
either: other seeds would have given other weights, other items another score. Both are chance, and a test
that knows only one of them finds too much. So:

- for each seed s, d(s) is the score of the cell less that of the baseline under the same seed; the estimate
  is the mean of d(s) over the S seeds;
- V_items is the variance of that mean over the items, by the influence of each item on it
  (`influence_values.py`), which is the mean over the seeds, since all of them were scored on the same items:
  what makes an item easy for everything cancels, and what remains is how the difference depends on the items
  chosen. Items of one cluster, such as pairs from one passage, count together;
- V_seeds is the sample variance of d(s), over the same items: how it depends on the seed;
- what one seed does to one item is in both. V_rest, the part of V_items that differs between the seeds, is
  therefore taken from V_items, but no more than V_seeds / S, so that the sum of both is never below V_items;
- the variance of the estimate is V_items + V_seeds / S;
- V_items has as many degrees of freedom as there are items, less one (by group, where the score is a mean
  of groups; of a mean over tasks, Satterthwaite's), V_seeds has S - 1. The critical value is
  Banerjee's (1960): the root mean square of the critical values of the two Student's t, weighted by V_items
  and V_seeds / S. It never finds too much. Satterthwaite's degrees of freedom for the sum do, with two or
  three seeds that differ more than the items (12 % at a level of 5 %): they grow where V_seeds happens to be
  small. So few items and few seeds cannot give a p-value of 1e-60 either;
- p is the two-sided level at which the difference is critical; the interval has the same critical value.

What says nothing about its encoder (`degenerate_scores.py`) is not judged, nor is anything judged against it.

With one seed, or seeds that change nothing, only the items are left, as a paired t-test over them; without
items, only the seeds, as a paired t-test, which takes two of them. Only seeds that both have are paired. The
mean over several columns is a score as any other (`mean_column`): an item that several tasks have moves it
once (`item_components.py`). In each column the p-values are corrected by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score

from sentbed_report.item_components import (
    AnyScore,
    ComponentStore,
    ItemComponents,
    MeanScore,
    is_degenerate,
    require_same_items,
)
from sentbed_report.resampling import CONFIDENCE, SIGNIFICANT
from sentbed_report.study.estimated_difference import EstimatedDifference, Source

if TYPE_CHECKING:
    from sentbed_report.weighted_statistics import Floats

Basis: TypeAlias = Literal["items and seeds", "items", "seeds"]

RESAMPLES = 500
"""Number of resamples of the items, where the statistic is a plugin's; gives standard deviations to 3 %."""

_ROUNDING = 1e-9
"""Spread of differences, in the unit of the score, that is none: of sums in another order."""
_SAME = 1e-6
"""Like `_ROUNDING`, for numbers read from files."""

Key = TypeVar("Key", bound=Hashable)
"""Key that identifies a cell of a column."""

Scored: TypeAlias = Mapping[int, AnyScore]
"""Seed -> score in one column."""


@attrs.frozen
class Judged:
    """Comparison of a cell with the baseline, in the unit of the score except for p-values."""

    differences: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> the cell's score less the baseline's, for the seeds that both have."""
    item_variance: float | None = None
    """Variance of their mean over the items, without what one seed does to one item; None without items."""
    item_degrees: float = math.inf
    """Degrees of freedom of `item_variance`; with it only."""
    low: float | None = None
    """Bounds of the interval."""
    high: float | None = None
    p_value: float | None = None
    """Two-sided p-value; None if unknown."""
    corrected: float | None = None
    """The p-value after Holm's correction for the cells of the column."""
    degrees: float | None = None
    """Degrees of freedom of the test; None where items and seeds have their own."""
    basis: Basis | None = None
    """Source of variance for the p-value."""
    reason: str = ""
    """Why the two were not compared, or have no p-value."""
    unpaired: tuple[int, ...] = ()
    """Seeds that only one of the two has, which do not count."""

    @property
    def difference(self) -> float | None:
        """Mean over the seeds; None if the two were not compared."""
        return sum(self.differences.values()) / len(self.differences) if self.differences else None

    @property
    def seed_variance(self) -> float | None:
        """Sample variance of the differences, 0 if they differ by rounding; None with fewer than two."""
        values = tuple(self.differences.values())
        return None if len(values) < 2 else _sample_variance(values)

    @property
    def estimate(self) -> EstimatedDifference:
        """The difference with its sources of variance, of cells that were compared."""
        count = len(self.differences)
        parts = (
            (self.item_variance or 0.0, self.item_degrees),
            ((self.seed_variance or 0.0) / count, count - 1),
        )
        sources = tuple(Source(*part) for part in parts if part[0] > 0)
        return EstimatedDifference(sum(self.differences.values()) / count, sources)

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 0.05."""
        return self.corrected is not None and self.corrected < SIGNIFICANT


def judge_column(
    baseline: Scored,
    cells: Mapping[Key, Scored],
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    single: bool = False,
    components: ComponentStore | None = None,
) -> dict[Key, Judged]:
    """Compare each cell with the baseline in one column; see the module for the method.

    Cells whose runs have other items than the baseline's are not compared, and say why. `single`: each cell
    is one run that was started alone, and is compared with the baseline's whatever their seeds are.
    `components` holds those of scores that have been used before; of the others it keeps them.
    """
    store = components or ComponentStore(resamples)
    found = {}
    for name, cell in cells.items():
        pairs = {seed: (baseline[seed], cell[seed]) for seed in baseline if seed in cell}
        if single and len(baseline) == len(cell) == 1:
            pairs = {seed: (next(iter(baseline.values())), score) for seed, score in cell.items()}
        unpaired = () if single else tuple(sorted(baseline.keys() ^ cell.keys()))
        found[name] = attrs.evolve(_judged(pairs, store, confidence), unpaired=unpaired)
    return corrected(found)


def mean_column(columns: Sequence[Mapping[int, Score]]) -> dict[int, MeanScore]:
    """Return a cell's mean over columns under each seed that has a score in all of them."""
    if not columns:
        return {}
    seeds = [seed for seed in columns[0] if all(seed in column for column in columns)]
    return {seed: MeanScore(tuple(column[seed] for column in columns)) for seed in seeds}


def average_column(
    columns: Sequence[Mapping[Key, Mapping[int, Score]]], given: Mapping[Key, Mapping[int, Score]]
) -> dict[Key, Scored]:
    """Return the scores of an average over columns: row -> seed -> score.

    `given` are scores of an average that the evaluator gives. They stand, unless all of them are the means of
    the columns and have no items, which the columns may have.
    """
    means = {row: mean_column([column.get(row, {}) for column in columns]) for row in columns[0]}
    scores = [(row, seed, score) for row, of_row in given.items() for seed, score in of_row.items()]
    if all(_is_mean(score, means[row].get(seed)) for row, seed, score in scores):
        return {row: {**of_row} for row, of_row in means.items()}
    return {row: {**given.get(row, {})} for row in columns[0]}


def _is_mean(score: Score, mean: MeanScore | None) -> bool:
    """Whether an average that has no items is that mean."""
    if score.items is not None or mean is None:
        return False
    return math.isclose(score.value, mean.value, abs_tol=_SAME)


def judge(
    differences: Mapping[int, float],
    item_variance: float | None = None,
    item_degrees: float = math.inf,
    confidence: float = CONFIDENCE,
) -> Judged:
    """Return interval and p-value of differences, one per seed.

    `item_variance` is that of their mean, with `item_degrees` degrees of freedom, above 0.
    """
    if not differences:
        return Judged(reason="no seed has a score of both")
    if not all(map(math.isfinite, differences.values())):
        return Judged(reason="a score is not finite")
    found = Judged(differences, item_variance, item_degrees)
    seeds = found.seed_variance or 0.0
    if item_variance is None and seeds == 0:
        what = "there is one seed" if len(differences) == 1 else "the seeds change nothing"
        return attrs.evolve(found, reason=f"{what}, and the score has no items")
    estimate = found.estimate
    if estimate.error <= _ROUNDING < abs(estimate.value):
        return attrs.evolve(found, reason="every item and every seed has the same difference")
    low, high = estimate.interval(confidence)
    return attrs.evolve(
        found,
        low=low,
        high=high,
        p_value=1.0 if estimate.error <= _ROUNDING else estimate.p_value(),
        degrees=estimate.sources[0].degrees if len(estimate.sources) == 1 else None,
        basis="seeds" if item_variance is None else "items and seeds" if seeds else "items",
    )


def corrected(found: Mapping[Key, Judged], looks: int = 1) -> dict[Key, Judged]:
    """Return the comparisons of one column with their p-values corrected; see `holm`."""
    known = holm({name: one.p_value for name, one in found.items() if one.p_value is not None}, looks)
    changed = {name: attrs.evolve(found[name], corrected=p_value) for name, p_value in known.items()}
    return {**found, **changed}


def holm(p_values: Mapping[Key, float], looks: int = 1) -> dict[Key, float]:
    """Return the p-values of a family corrected by Holm's method (1979), in their order.

    Where the number of seeds was decided at one of several `looks` at the scores, they are corrected for
    these, too (Bonferroni).
    """
    found, largest = dict(p_values), 0.0
    for place, (name, p_value) in enumerate(sorted(p_values.items(), key=lambda one: one[1])):
        found[name] = largest = max(largest, min(1.0, looks * (len(found) - place) * p_value))
    return found


def estimated(
    values: Mapping[int, float], components: Sequence[ItemComponents | None], parts: Sequence[Floats]
) -> Judged:
    """Return values, one a seed, with the variance of their mean over the items, before any test.

    `parts` are the components of the values, which are on the items of `components`; of these, any that is
    None means that there are no items.
    """
    import numpy as np

    layout = components[0] if components else None
    if layout is None or any(one is None for one in components):
        return Judged(values)
    count = len(parts)
    mean: Floats = np.mean(parts, axis=0)
    variance = layout.variance(mean)
    if count > 1:
        rest = sum(layout.variance(part - mean) for part in parts) / (count * (count - 1))
        variance = max(0.0, variance - min(rest, _sample_variance([*values.values()]) / count))
    return Judged(values, variance, layout.degrees(mean))


def _sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance of two values or more, 0 if they differ by rounding."""
    if max(values) - min(values) <= _ROUNDING:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def compared(pairs: Mapping[int, tuple[AnyScore, AnyScore]], store: ComponentStore) -> Judged:
    """Return the differences of the second scores from the first, seed by seed, before any test."""
    differences = {seed: after.value - before.value for seed, (before, after) in pairs.items()}
    try:
        befores = [store.of(before) for before, _ in pairs.values()]
        afters = [store.of(after) for _, after in pairs.values()]
        _require_one_set_of_items([score for pair in pairs.values() for score in pair])
    except RunError as error:
        return Judged(reason=str(error))
    parts = [
        after.values - before.values
        for before, after in zip(befores, afters, strict=True)
        if before is not None and after is not None
    ]
    return estimated(differences, [*befores, *afters], parts)


def _require_one_set_of_items(scores: Sequence[AnyScore]) -> None:
    """Raise `RunError` if scores do not have the same items."""
    for score in scores[1:]:
        require_same_items(scores[0], score)


def with_test(found: Judged, confidence: float = CONFIDENCE) -> Judged:
    """Return what `compared` has found with interval and p-value."""
    if found.reason:
        return found
    judged = judge(found.differences, found.item_variance, found.item_degrees, confidence)
    return attrs.evolve(judged, unpaired=found.unpaired)


def _judged(
    pairs: Mapping[int, tuple[AnyScore, AnyScore]], store: ComponentStore, confidence: float
) -> Judged:
    for name, side in (("the baseline's score", 0), ("the score", 1)):
        if any(is_degenerate(pair[side]) for pair in pairs.values()):
            return Judged(reason=f"{name} is degenerate")
    return with_test(compared(pairs, store), confidence)
