"""Significance test of the difference between a cell and the baseline, over both seeds and items.

A study repeats a cell with several seeds and scores every run on the same items. A difference may be due to
chance in two ways: other seeds would have given other weights, and other items another score. A test that
considers only one of them has too many false positives. So:

- for each seed s, d(s) is the score of the cell minus that of the baseline under the same seed; the estimate
  is the mean of d(s) over the S seeds;
- V_items is the variance of the estimate over the items. It is computed from the influence of each item
  (`Items.influences`), averaged over the seeds, which were all scored on the same items. How hard an item is
  for every cell cancels; what remains is how the difference depends on the choice of items. Items of one
  cluster, such as pairs from one passage, count together;
- V_seeds is the sample variance of d(s): how the difference depends on the seed, on the same items;
- the interaction of seed and item is in both. V_rest, the part of V_items that differs between the seeds, is
  therefore subtracted from V_items. At most V_seeds / S is subtracted, so that the variance of the estimate
  (next point) is never below V_items as it was before;
- the variance of the estimate is V_items + V_seeds / S;
- V_items has n - 1 degrees of freedom with n items (by group, if the score is a mean of groups; by
  Satterthwaite's formula for a mean over tasks), V_seeds has S - 1. The critical value is Banerjee's (1960):
  the root mean square of the critical values of the two Student's t, weighted by V_items and V_seeds / S. It
  keeps the level. Satterthwaite's degrees of freedom for the sum do not, with two or three seeds that differ
  more than the items (12 % at a level of 5 %): they are large whenever V_seeds happens to be small. With
  Banerjee's value, a handful of items and seeds also cannot give a p-value such as 1e-60;
- p is the two-sided level at which the difference is critical; the interval has the same critical value.

A degenerate score, which says nothing about its encoder (`degenerate_scores.py`), is not tested, and nothing
is tested against it.

With one seed, or seeds that change nothing, the test is a paired t-test over the items; without items, it is
a paired t-test over the seeds, of which it needs two. Only seeds that both cells have are paired. The mean
over several columns is tested like any other score (`mean_column`): an item that several tasks contain counts
as one item (`item_components.py`). The p-values of each column are corrected by Holm's method.

Prompts may be a third source of variance: every cell is run with each of P prompts under each seed, and other
prompts would have given other scores. With d(p, s), the difference under prompt p and seed s:

- d(s) is the mean of d(p, s) over the prompts, and V_seeds and V_items are as above;
- V_prompts is the sample variance over the prompts of the mean of d(p, s) over the seeds, with P - 1 degrees
  of freedom, and V_prompts / P is added to the variance of the estimate. Banerjee's critical value then has
  three terms;
- nothing is subtracted from V_items: interactions with items are in two of the three sources, and the test is
  conservative. Subtracting them is not: up to 10 % at a level of 5 %.

Prompts that are all of interest, not a sample of others, have no variance: their mean is tested, over items
and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score
from sentbed.statistics import EstimatedDifference, ItemComponents, Source

from sentbed_report.statistics.item_components import (
    AnyScore,
    ComponentStore,
    MeanScore,
    PromptScores,
    is_degenerate,
    parts_of,
)
from sentbed_report.statistics.levels import CONFIDENCE, SIGNIFICANT

if TYPE_CHECKING:
    from sentbed.statistics.named_statistics import Floats

Basis: TypeAlias = Literal[
    "items and seeds",
    "items",
    "seeds",
    "items, prompts and seeds",
    "items and prompts",
    "prompts and seeds",
    "prompts",
]

SourceName: TypeAlias = Literal["items", "seeds", "prompts"]

RESAMPLES = 500
"""Number of bootstrap resamples for the statistic of a plugin; standard deviations are then within 3 %."""

_BASES: dict[tuple[bool, bool, bool], Basis] = {
    (True, False, False): "items",
    (True, False, True): "items and seeds",
    (False, False, True): "seeds",
    (True, True, False): "items and prompts",
    (True, True, True): "items, prompts and seeds",
    (False, True, True): "prompts and seeds",
    (False, True, False): "prompts",
}
"""Whether there are items, and whether prompts and seeds vary -> basis of the p-value."""

_ROUNDING = 1e-9
"""Largest difference, in the unit of the score, that is attributed to rounding: sums in another order differ."""
_SAME = 1e-6
"""Like `_ROUNDING`, for numbers read from files."""

Key = TypeVar("Key", bound=Hashable)
"""Key that identifies a cell of a column."""

Scored: TypeAlias = Mapping[int, AnyScore]
"""Seed -> score in one column."""

ScoreOfSeed: TypeAlias = Score | PromptScores
"""Score of a task under one seed: of its only run, or of several runs, one per prompt."""


@attrs.frozen
class Judged:
    """Comparison of a cell with the baseline, in the unit of the score except for p-values.

    It is filled in steps: `weighted_sum` sets the differences and their variances, `with_test` the interval and
    the p-value, `corrected` the corrected p-value.
    """

    differences: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> the cell's score less the baseline's, for the seeds that both have."""
    item_variance: float | None = None
    """Variance of their mean over the items, without the interaction of seed and item; None without items."""
    item_degrees: float = math.inf
    """Degrees of freedom of `item_variance`; meaningless without it."""
    prompts: Mapping[str, float] = attrs.field(factory=dict)
    """Prompt -> the difference under it, as the mean over seeds; empty unless the prompts are a sample."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the mean difference."""
    p_value: float | None = None
    """Two-sided p-value; None if unknown."""
    corrected: float | None = None
    """The p-value after Holm's correction over the cells of the column."""
    degrees: float | None = None
    """Degrees of freedom of the test; None if there are several sources of variance, each with its own."""
    basis: Basis | None = None
    """Sources of variance of the p-value."""
    reason: str = ""
    """Why the two were not compared, or have no p-value."""
    unpaired: tuple[int, ...] = ()
    """Seeds that only one of the two has, which are left out."""

    @property
    def difference(self) -> float | None:
        """Mean over the seeds; None if the two were not compared."""
        return self.estimate.value if self.differences else None

    @property
    def seed_variance(self) -> float | None:
        """Sample variance of the differences, 0 if they differ only by rounding; None for fewer than two."""
        values = list(self.differences.values())
        return _sample_variance(values) if len(values) > 1 else None

    @property
    def prompt_variance(self) -> float | None:
        """Sample variance over the prompts, 0 if they differ only by rounding; None for fewer than two."""
        values = list(self.prompts.values())
        return _sample_variance(values) if len(values) > 1 else None

    @property
    def sources(self) -> dict[SourceName, Source]:
        """Sources of the variance of the mean difference, including those with variance 0."""
        seeds, prompts = len(self.differences), len(self.prompts)
        sources: dict[SourceName, Source] = {
            "items": Source(self.item_variance or 0.0, self.item_degrees),
            "seeds": Source((self.seed_variance or 0.0) / seeds, seeds - 1),
        }
        if prompts > 1:
            sources["prompts"] = Source(
                (self.prompt_variance or 0.0) / prompts, prompts - 1
            )
        return sources

    @property
    def estimate(self) -> EstimatedDifference:
        """The mean difference with its sources of variance; only if the cells were compared."""
        varying = []
        for source in self.sources.values():
            if source.variance > 0:
                varying.append(source)
        mean = sum(self.differences.values()) / len(self.differences)
        return EstimatedDifference(mean, tuple(varying))

    @property
    def significant(self) -> bool:
        """Whether the corrected p-value is below 0.05."""
        return self.corrected is not None and self.corrected < SIGNIFICANT


@attrs.frozen(eq=False, repr=False)
class TableScores(Generic[Key]):
    """Scores of a table's rows in its last column."""

    column: Mapping[Key, Scored]
    """Row -> seed -> score."""
    components: ComponentStore
    """Cache of the scores' item components, which several tests use."""

    def contrast(self, weights: Mapping[Key, float]) -> Judged:
        """Return interval and p-value of the sum over rows of weight times score, such as a label's effect.

        It is tested like the difference of two cells. The weights sum to 0, so that how hard an item is for
        every cell cancels.
        """
        terms = []
        for row, weight in weights.items():
            terms.append((weight, self.column.get(row, {})))
        shared = _shared_seeds([scores for _, scores in terms])
        if not shared:
            return Judged(reason="no seed has a score of all cells")
        for _, scores in terms:
            if any(is_degenerate(scores[seed]) for seed in shared):
                return Judged(reason="a score is degenerate")
        return with_test(weighted_sum(terms, self.components))

    def pairs(self, rows: Sequence[Key]) -> dict[tuple[Key, Key], Judged]:
        """Compare every two of `rows`, the second with the first, seed by seed, before any correction.

        The rows must have no degenerate scores. The item components of each score are computed once, so that
        a pair costs one subtraction per seed.
        """
        judged = {}
        for first, second in combinations(rows, 2):
            before, after = self.column.get(first, {}), self.column.get(second, {})
            judged[first, second] = with_test(compared(before, after, self.components))
        return judged


def common_basis(bases: Collection[Basis]) -> Basis:
    """Return every source of variance that some of these tests have; at least one test."""
    names = " ".join(bases)
    return _BASES["items" in names, "prompts" in names, "seeds" in names]


def judge_cell(before: Scored, after: Scored, components: ComponentStore) -> Judged:
    """Compare a cell with the baseline, whose scores are `before`; the module describes the method.

    If the items differ from those of the baseline, the result has no test, but the reason.
    """
    reason = _degenerate(before, after)
    if reason:
        return Judged(reason=reason, unpaired=_unpaired(before, after))
    return with_test(compared(before, after, components))


def compared(before: Scored, after: Scored, store: ComponentStore) -> Judged:
    """Return the differences `after` minus `before`, seed by seed, before any test."""
    judged = weighted_sum([(-1.0, before), (1.0, after)], store)
    return attrs.evolve(judged, unpaired=_unpaired(before, after))


def weighted_sum(
    terms: Sequence[tuple[float, Scored]], store: ComponentStore
) -> Judged:
    """Return the sum of weight times score under each seed that all cells have, before any test."""
    import numpy as np

    seeds = _shared_seeds([scores for _, scores in terms])
    weights = [weight for weight, _ in terms]
    scores_of_seeds: list[AnyScore] = []
    values = {}
    for seed in seeds:
        scores_of_seeds += [scores[seed] for _, scores in terms]
        values[seed] = sum(weight * scores[seed].value for weight, scores in terms)
    try:
        prompts = sums_under_prompts(terms, seeds)
        components = store.of_all(scores_of_seeds)
    except RunError as error:
        return Judged(reason=str(error))

    # `components` has those of all terms under the first seed, then those of all terms under the second, ...
    parts: list[Floats] = []
    for first in range(0, len(components), len(terms)):
        of_terms = components[first : first + len(terms)]
        parts.append(np.dot(weights, [part.values for part in of_terms]))
    return estimated(values, components, parts, prompts)


def _shared_seeds(columns: Sequence[Mapping[int, object]]) -> list[int]:
    """Return the seeds that all columns have, in the order of the first."""
    shared = set(columns[0]).intersection(*columns[1:])
    return [seed for seed in columns[0] if seed in shared]


def sums_under_prompts(
    terms: Sequence[tuple[float, Scored]], seeds: Sequence[int]
) -> dict[str, float]:
    """Return the sum of weight times score under each prompt, as the mean over the seeds.

    Empty without prompts, and for prompts that are not a sample.

    Raises:
        RunError: if not all scores are under the same prompts.
    """
    labels: list[tuple[str, ...]] = []
    are_sample = False
    for seed in seeds:
        for _, scores in terms:
            score = scores[seed]
            if isinstance(score, PromptScores):
                labels.append(tuple(score.of_prompts))
                are_sample |= score.are_sample
            else:
                labels.append(())
    if len(set(map(frozenset, labels))) > 1:
        raise RunError(
            "the two were scored under other prompts; only scores under the same are compared"
        )
    if not are_sample:
        return {}
    totals = dict.fromkeys(labels[0], 0.0)
    for seed in seeds:
        for weight, scores in terms:
            score = scores[seed]
            if isinstance(score, PromptScores):
                for prompt, of_prompt in score.of_prompts.items():
                    totals[prompt] += weight * of_prompt.value
    return {prompt: total / len(seeds) for prompt, total in totals.items()}


def _unpaired(before: Scored, after: Scored) -> tuple[int, ...]:
    return tuple(sorted(before.keys() ^ after.keys()))


def _degenerate(before: Scored, after: Scored) -> str:
    """Return which side has a degenerate score under a seed that both have; empty if neither has."""
    for name, scores in (("the baseline's score", before), ("the score", after)):
        if any(is_degenerate(scores[seed]) for seed in before if seed in after):
            return f"{name} is degenerate"
    return ""


def estimated(
    values: Mapping[int, float],
    components: Sequence[ItemComponents],
    parts: Sequence[Floats],
    prompts: Mapping[str, float] | None = None,
) -> Judged:
    """Return the values, one per seed, with the variance of their mean over the items, before any test.

    `parts` are the item components of the values, one array per seed, for the items of `components`; both are
    empty without items. `prompts` are the values under each prompt of a sample, as means over the seeds.
    """
    import numpy as np

    prompts = prompts or {}
    if not components:
        return Judged(values, prompts=prompts)
    layout, seeds = components[0], len(parts)
    mean: Floats = np.mean(parts, axis=0)
    variance = layout.variance(mean)
    if seeds > 1 and not prompts:
        rest = sum(layout.variance(part - mean) for part in parts)
        rest /= seeds * (seeds - 1)
        of_seeds = _sample_variance(list(values.values())) / seeds
        variance = max(0.0, variance - min(rest, of_seeds))
    return Judged(values, variance, layout.degrees(mean), prompts)


def _sample_variance(values: Sequence[float]) -> float:
    """Return the sample variance of at least two values, 0 if they differ only by rounding."""
    if max(values) - min(values) <= _ROUNDING:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def with_test(judged: Judged, confidence: float = CONFIDENCE) -> Judged:
    """Return the comparison with interval and p-value, or with the reason why it has none."""
    if judged.reason:
        return judged
    if not judged.differences:
        return attrs.evolve(judged, reason="no seed has a score of both")
    if not all(map(math.isfinite, judged.differences.values())):
        return Judged(reason="a score is not finite", unpaired=judged.unpaired)

    has_seeds = bool(judged.seed_variance)
    has_prompts = bool(judged.prompt_variance)
    if judged.item_variance is None and not has_seeds and not has_prompts:
        seeds = "the seeds change nothing"
        if len(judged.differences) == 1:
            seeds = "there is one seed"
        return attrs.evolve(judged, reason=f"{seeds}, and the score has no items")
    estimate = judged.estimate
    is_certain = estimate.error <= _ROUNDING
    if is_certain and abs(estimate.value) > _ROUNDING:
        return attrs.evolve(
            judged, reason="every item and every seed has the same difference"
        )

    basis = _BASES[judged.item_variance is not None, has_prompts, has_seeds]
    p_value = 1.0 if is_certain else estimate.p_value()
    degrees = None
    if len(estimate.sources) == 1:
        degrees = estimate.sources[0].degrees
    return attrs.evolve(
        judged,
        interval=estimate.interval(confidence),
        p_value=p_value,
        degrees=degrees,
        basis=basis,
    )


def corrected(judged: Mapping[Key, Judged], looks: int = 1) -> dict[Key, Judged]:
    """Return comparisons with corrected p-values; see `holm`."""
    p_values = {}
    for key, comparison in judged.items():
        if comparison.p_value is not None:
            p_values[key] = comparison.p_value
    result = dict(judged)
    for key, p_value in holm(p_values, looks).items():
        result[key] = attrs.evolve(judged[key], corrected=p_value)
    return result


def holm(p_values: Mapping[Key, float], looks: int = 1) -> dict[Key, float]:
    """Return the p-values of a family corrected by Holm's method (1979), in their order.

    They are also corrected (Bonferroni) for the number of `looks` at the scores after which the study might
    have stopped.
    """
    result = dict(p_values)
    largest = 0.0
    for place, key in enumerate(sorted(p_values, key=result.__getitem__)):
        largest = max(largest, min(1.0, looks * (len(result) - place) * result[key]))
        result[key] = largest
    return result


def mean_column(
    columns: Sequence[Mapping[int, ScoreOfSeed]],
) -> dict[int, MeanScore | PromptScores]:
    """Return a cell's mean over columns, for each seed with a score in all columns."""
    if not columns:
        return {}
    means = {}
    for seed in _shared_seeds(columns):
        means[seed] = _mean_over_tasks([column[seed] for column in columns])
    return means


def _mean_over_tasks(scores: Sequence[ScoreOfSeed]) -> MeanScore | PromptScores:
    """Return the mean of one seed's scores, one per task; with several prompts, the mean under each."""
    of_task = [score for score in scores if isinstance(score, Score)]
    under_prompts = [score for score in scores if isinstance(score, PromptScores)]
    if not under_prompts:
        return MeanScore(tuple(of_task))
    means = {}
    for prompt in under_prompts[0].of_prompts:
        of_prompt = [score.of_prompts[prompt] for score in under_prompts]
        means[prompt] = MeanScore(tuple(chain.from_iterable(map(parts_of, of_prompt))))
    return PromptScores(means, under_prompts[0].are_sample)


def average_column(
    columns: Sequence[Mapping[Key, Mapping[int, ScoreOfSeed]]],
    averages: Mapping[Key, Mapping[int, ScoreOfSeed]],
) -> dict[Key, Scored]:
    """Return the scores of an average over columns: row -> seed -> score.

    `averages` are the averages that the evaluator reports. Without any, the means of the columns are returned.
    Otherwise, only rows with a reported average are. If every reported average equals the mean of the columns
    and has no items, the means replace them, since columns may have items to test over.
    """
    means: dict[Key, Scored] = {}
    for row in dict.fromkeys(chain.from_iterable(columns)):
        means[row] = mean_column([column.get(row, {}) for column in columns])
    if not averages:
        return means
    for row, of_row in averages.items():
        for seed, score in of_row.items():
            if not _is_mean(score, means.get(row, {}).get(seed)):
                return dict(averages)
    return {row: means[row] for row in averages}


def _is_mean(score: AnyScore, mean: AnyScore | None) -> bool:
    """Whether a reported average has no items and equals the mean of the columns."""
    if mean is None:
        return False
    if isinstance(score, PromptScores):
        if not isinstance(mean, PromptScores):
            return False
        for prompt, of_prompt in score.of_prompts.items():
            if not _is_mean(of_prompt, mean.of_prompts.get(prompt)):
                return False
        return True
    if not isinstance(score, Score) or score.items is not None:
        return False
    return math.isclose(score.value, mean.value, abs_tol=_SAME)
