"""Whether a cell differs from the baseline: over the seeds and the items of one column together.

A study repeats a cell with several seeds and scores every run on the same items. A difference may be due to
either: other seeds would have given other weights, other items another score. Both are chance, and a test
that knows only one of them finds too much. So:

- for each seed s, d(s) is the score of the cell less that of the baseline under the same seed; the estimate
  is the mean of d(s) over the S seeds;
- V_items is the variance of that mean over resamples of the items (bootstrap), with the same counts for both
  cells and for all seeds, since all of them were scored on the same items: what makes an item easy for
  everything cancels, and what remains is how the difference depends on the items chosen;
- V_seeds is the sample variance of d(s), over the same items: how it depends on the seed;
- the variance of the estimate is V_items + V_seeds / S. What one seed does to one item is in both, so that
  the sum is a little too large and the test careful;
- V_items has as many degrees of freedom as there are items, less one (by group, where the score is a mean
  of groups; of a sum over tasks, Satterthwaite's), V_seeds has S - 1. The critical value is
  Banerjee's (1960): the root mean square of the critical values of the two Student's t, weighted by V_items
  and V_seeds / S. It never finds too much. Satterthwaite's degrees of freedom for the sum do, with two or
  three seeds that differ more than the items (12 % at a level of 5 %): they grow where V_seeds happens to be
  small. So few items and few seeds cannot give a p-value of 1e-60 either;
- p is the two-sided level at which the difference is critical; the interval has the same critical value.

What says nothing about its encoder (`degenerate.py`) is not judged, nor is anything judged against it.

With one seed, or seeds that change nothing, only the items are left, as a paired t-test over them; without
items, only the seeds, as a paired t-test, which takes two of them. Only seeds that both have are paired. The
average of several columns has the mean of their differences, seed by seed; tasks have items of their own, so
that V_items is the sum of theirs over the square of their number. In each column the p-values are corrected
by Holm's method.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Items, Score

from sentbed_report.degenerate_scores import degenerate_of
from sentbed_report.resampling import CONFIDENCE, SIGNIFICANT, Resampled, require_same, resample
from sentbed_report.study.estimated_difference import EstimatedDifference, Source
from sentbed_report.weighted_statistics import members_of

if TYPE_CHECKING:
    from sentbed_report.weighted_statistics import Floats

Basis: TypeAlias = Literal["items and seeds", "items", "seeds"]

RESAMPLES = 500
"""Number of resamples of the items; gives standard deviations to 3 %."""

_ROUNDING = 1e-9
"""Spread of differences, in the unit of the score, that is none: of sums in another order."""
_SAME = 1e-6
"""Like `_ROUNDING`, for numbers read from files."""

Key = TypeVar("Key", bound=Hashable)
"""Key that identifies a cell of a column."""

Scored: TypeAlias = Mapping[int, Score]
"""Seed -> score in one column."""


@attrs.frozen
class Judged:
    """Comparison of a cell with the baseline, in the unit of the score except for p-values."""

    differences: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> the cell's score less the baseline's, for the seeds that both have."""
    item_variance: float | None = None
    """Variance of their mean over resamples of the items; None without items."""
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
        if len(values) < 2:
            return None
        if max(values) - min(values) <= _ROUNDING:
            return 0.0
        mean = sum(values) / len(values)
        return sum((one - mean) ** 2 for one in values) / (len(values) - 1)

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
    draws: Draws | None = None,
) -> dict[Key, Judged]:
    """Compare each cell with the baseline in one column; see the module for the method.

    Cells whose runs have other items than the baseline's are not compared, and say why. `single`: each cell
    is one run that was started alone, and is compared with the baseline's whatever their seeds are. `draws`
    are used in the place of new ones of `resamples`.
    """
    drawn = draws or Draws(resamples)
    found = {}
    for name, cell in cells.items():
        pairs = {seed: (baseline[seed], cell[seed]) for seed in baseline if seed in cell}
        if single and len(baseline) == len(cell) == 1:
            pairs = {seed: (next(iter(baseline.values())), score) for seed, score in cell.items()}
        unpaired = () if single else tuple(sorted(baseline.keys() ^ cell.keys()))
        found[name] = attrs.evolve(_judged(pairs, drawn, confidence), unpaired=unpaired)
    return corrected(found)


def judge_average(
    columns: Sequence[Mapping[Key, Judged]],
    given: Mapping[Key, Judged] | None = None,
    confidence: float = CONFIDENCE,
) -> dict[Key, Judged]:
    """Compare each cell with the baseline in the mean of columns, each of them judged already.

    `given` is of an average that the evaluator gives: it stands, but where it is that mean and has no items.
    Only the seeds count in a cell that has no items in one of the columns; one that was not compared in a
    column, or under other seeds than in another, is not compared.
    """
    found = {name: _averaged([column[name] for column in columns], confidence) for name in columns[0]}
    for name, own in (given or {}).items():
        mean = found[name].differences
        same = mean.keys() == own.differences.keys() and all(
            math.isclose(mean[seed], one, abs_tol=_SAME) for seed, one in own.differences.items()
        )
        if own.item_variance is not None or not same:
            found[name] = own
    return corrected(found)


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


def _averaged(parts: Sequence[Judged], confidence: float) -> Judged:
    unpaired = tuple(sorted({seed for part in parts for seed in part.unpaired}))
    missing = next((part for part in parts if not part.differences), None)
    if missing is not None:
        return Judged(reason=missing.reason, unpaired=unpaired)
    seeds = parts[0].differences
    if any(part.differences.keys() != seeds.keys() for part in parts):
        return Judged(reason="its tasks were scored under seeds that differ")
    means = {seed: sum(part.differences[seed] for part in parts) / len(parts) for seed in seeds}
    known = [(part.item_variance, part.item_degrees) for part in parts if part.item_variance is not None]
    if len(known) == len(parts):
        variance = sum(variance for variance, _ in known) / len(parts) ** 2
        judged = judge(means, variance, _degrees(*known), confidence)
    else:
        judged = judge(means, confidence=confidence)
    return attrs.evolve(judged, unpaired=unpaired)


def _degrees(*parts: tuple[float, float]) -> float:
    """Return Satterthwaite's degrees of freedom of a sum of variances, each given with its own."""
    total = sum(variance for variance, _ in parts)
    below = sum(variance**2 / degrees for variance, degrees in parts if variance > 0)
    return total**2 / below if below > 0 else math.inf


def compared(pairs: Mapping[int, tuple[Score, Score]], draws: Draws) -> Judged:
    """Return the differences of the second scores from the first, seed by seed, before any test."""
    try:
        variance, degrees = _item_variance(list(pairs.values()), draws) or (None, math.inf)
    except RunError as error:
        return Judged(reason=str(error))
    return Judged({seed: b.value - a.value for seed, (a, b) in pairs.items()}, variance, degrees)


def with_test(found: Judged, confidence: float = CONFIDENCE) -> Judged:
    """Return what `compared` has found with interval and p-value."""
    if found.reason:
        return found
    judged = judge(found.differences, found.item_variance, found.item_degrees, confidence)
    return attrs.evolve(judged, unpaired=found.unpaired)


class Draws:
    """Resampled scores of a table; each score is resampled once, and the mean of a cell's seeds made once."""

    def __init__(self, resamples: int = RESAMPLES) -> None:
        self._resamples = resamples
        self._found: dict[int, tuple[Score, Resampled | None]] = {}
        self._means: dict[tuple[int, ...], Resampled] = {}

    def of(self, score: Score) -> Resampled | None:
        """Return the score's draws, or None without items. Raises `RunError` if they cannot be used."""
        if id(score) not in self._found:
            drawn = None if score.items is None else resample(score.items, self._resamples)
            # Keep a reference to the score, so that its id is not reused.
            self._found[id(score)] = score, drawn
        return self._found[id(score)][1]

    def mean(self, scores: Sequence[Score]) -> Resampled:
        """Return the draws of the mean of scores, all of which have items.

        Raises:
            RunError: if they do not have the same items, or these cannot be used.
        """
        import numpy as np

        key = tuple(map(id, scores))
        if key not in self._means:
            found = [one for one in map(self.of, scores) if one is not None]
            for other in found[1:]:
                require_same(found[0].items, other.items)
            value = sum(one.value for one in found) / len(found)
            self._means[key] = Resampled(found[0].items, value, np.mean([one.draws for one in found], axis=0))
        return self._means[key]


def _judged(pairs: Mapping[int, tuple[Score, Score]], draws: Draws, confidence: float) -> Judged:
    for name, side in (("the baseline's score", 0), ("the score", 1)):
        if any(degenerate_of(pair[side]) for pair in pairs.values()):
            return Judged(reason=f"{name} is degenerate")
    return with_test(compared(pairs, draws), confidence)


def _item_variance(pairs: Sequence[tuple[Score, Score]], draws: Draws) -> tuple[float, float] | None:
    """Return the variance of the mean difference over the items that all runs share, and its degrees.

    Raises:
        RunError: if the runs do not have the same items.
    """
    import numpy as np

    if not pairs or any(score.items is None for pair in pairs for score in pair):
        return None
    before, after = (draws.mean([pair[side] for pair in pairs]) for side in (0, 1))
    require_same(before.items, after.items)
    total: Floats = after.draws - before.draws
    if (of_items := item_degrees(before.items)) is None:
        return None
    degrees, missing = of_items
    return float(np.var(total, ddof=1)) * missing, degrees


def item_degrees(items: Items) -> tuple[float, float] | None:
    """Return the degrees of freedom of a variance over resamples of items, and what to multiply it by.

    Resampling n items gives (n - 1) / n of the variance. None if every group has one item.
    """
    sizes = [len(members) for members in members_of(items)]
    # The variance of each group's part, if those of single items are alike; of one item it is not known.
    parts = [((size if items.weighted else 1 / size), size - 1) for size in sizes if size > 1]
    if not parts:
        return None
    missing = sum(part for part, _ in parts) / sum(part * most / (most + 1) for part, most in parts)
    return _degrees(*parts), missing
