"""Significance test of the difference between a cell and the baseline, over both seeds and items.

A study repeats a cell with several seeds and scores every run on the same items. A difference may be due to
chance in two ways: other seeds would have given other weights, and other items another score. A test that
considers only one of them has too many false positives. So:

- for each seed s, d(s) is the score of the cell minus that of the baseline under the same seed; the estimate is
  the mean of d(s) over the S seeds;
- V_items is the variance of the estimate over the items. It is computed from the influence of each item
  (`Items.influences`), averaged over the seeds, which were all scored on the same items. The difficulty that an
  item has for both cells cancels; what remains is how the difference depends on the choice of items. Items of
  one cluster, such as pairs from one passage, count together;
- V_seeds is the sample variance of d(s): how the difference depends on the seed, on the same items;
- the interaction of seed and item is in both. V_rest, the part of V_items that differs between the seeds, is
  therefore subtracted from V_items. At most V_seeds / S is subtracted, so the variance of the estimate (next
  point) is never below V_items before the subtraction;
- the variance of the estimate is V_items + V_seeds / S;
- V_items has n - 1 degrees of freedom with n items (by group, if the score is a mean of groups; by
  Satterthwaite's formula for a mean over tasks), V_seeds has S - 1. The critical value is Banerjee's (1960):
  the root mean square of the critical values of the two Student's t, weighted by V_items and V_seeds / S. A
  test with this value keeps its level. A test with Satterthwaite's degrees of freedom for the sum does not:
  with two or three seeds that differ more than the items, it has 12 % false positives at a level of 5 %,
  because the degrees of freedom are large whenever V_seeds happens to be small. With Banerjee's value, a
  handful of items and seeds also cannot give a p-value such as 1e-60;
- p is the two-sided level at which the difference is critical; the interval has the same critical value.

A degenerate score, which says nothing about its encoder (`degenerate_scores.py`), is NaN, and so is not tested.

With one seed, or seeds that change nothing, the test is a paired t-test over the items; without items, it is a
paired t-test over the seeds, and needs at least two. Only seeds that both cells have are paired. The mean over
several columns is tested like any other score (`mean_column`): an item that several tasks contain counts as one
item (`item_components.py`). The p-values of each column are corrected by Holm's method.

Prompts may be a third source of variance: every cell is run with each of P prompts under each seed, and other
prompts would have given other scores. With d(p, s), the difference under prompt p and seed s:

- d(s) is the mean of d(p, s) over the prompts, and V_seeds and V_items are as above;
- V_prompts is the sample variance over the prompts of the mean of d(p, s) over the seeds, with P - 1 degrees of
  freedom, and V_prompts / P is added to the variance of the estimate. Banerjee's critical value then has three
  terms;
- nothing is subtracted from V_items: interactions with items are in two of the three sources, and the test is
  conservative. A test that subtracts them is not conservative: it had up to 10 % false positives at a level of
  5 %.

If the prompts are not a sample but all prompts of interest, V_prompts is left out: the mean over these prompts
is tested, over items and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import chain, combinations
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import attrs
from sentbed.errors import RunError
from sentbed.protocols import Score

from sentbed_report.statistics.estimated_difference import EstimatedDifference, Source
from sentbed_report.statistics.item_components import (
    AnyScore,
    ComponentStore,
    MeanScore,
    PromptScores,
    parts_of,
)
from sentbed_report.statistics.levels import CONFIDENCE, SIGNIFICANT
from sentbed_report.statistics.sampling_error import ItemComponents

if TYPE_CHECKING:
    from sentbed_common.item_statistics import Floats

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

_BASES: dict[tuple[bool, bool, bool], Basis] = {
    (True, False, False): "items",
    (True, False, True): "items and seeds",
    (False, False, True): "seeds",
    (True, True, False): "items and prompts",
    (True, True, True): "items, prompts and seeds",
    (False, True, True): "prompts and seeds",
    (False, True, False): "prompts",
}
"""(Whether the scores have items, whether prompts vary, whether seeds vary) -> basis of the p-value."""

_ROUNDING = 1e-9
"""Largest difference, in the unit of the score, that is attributed to rounding."""
_SAME = 1e-6
"""Largest difference that is attributed to rounding between numbers read from files."""

Key = TypeVar("Key", bound=Hashable)
"""Type of the keys that identify rows of a table or tests of a family."""

Scored: TypeAlias = Mapping[int, AnyScore]
"""Seed -> score of one row in one column."""

ScoreOfSeed: TypeAlias = Score | PromptScores
"""Score of a task under one seed: of its only run, or of several runs, one per prompt."""


@attrs.frozen
class Judged:
    """Comparison of a cell with the baseline; differences and the interval are in the unit of the score.

    It is filled in steps: `weighted_sum` sets the differences and their variances, `with_test` the interval and
    the p-value, `corrected` the corrected p-value.
    """

    differences: Mapping[int, float] = attrs.field(factory=dict)
    """Seed -> the cell's score minus the baseline's score, for the seeds that both have."""
    item_variance: float | None = None
    """Variance over the items of the mean difference, without the interaction of seed and item; None without
    items."""
    item_degrees: float = math.inf
    """Degrees of freedom of `item_variance`; infinite without items."""
    prompts: Mapping[str, float] = attrs.field(factory=dict)
    """Prompt -> mean difference over the seeds under this prompt; empty unless the prompts are a sample."""
    interval: tuple[float, float] | None = None
    """Confidence interval of the mean difference; None without a p-value."""
    p_value: float | None = None
    """Two-sided p-value; None before the test, and if there is a `reason` why it cannot be computed."""
    corrected: float | None = None
    """The p-value after Holm's correction over its family, such as the cells of the column; None before it."""
    degrees: float | None = None
    """Degrees of freedom of the test; None if there are several sources of variance, since each has its own."""
    basis: Basis | None = None
    """Sources of variance that the p-value takes into account; None without a p-value."""
    reason: str = ""
    """Why the cell was not compared, or has no p-value; empty otherwise."""

    @property
    def difference(self) -> float | None:
        """Mean difference over the seeds; None if the cell was not compared."""
        return self.estimate.value if self.differences else None

    @property
    def seed_variance(self) -> float | None:
        """Sample variance of the differences over the seeds; None for fewer than two seeds."""
        return _sample_variance(self.differences.values())

    @property
    def prompt_variance(self) -> float | None:
        """Sample variance of the differences over the prompts; None for fewer than two prompts."""
        return _sample_variance(self.prompts.values())

    @property
    def sources(self) -> dict[SourceName, Source]:
        """Each source of variance -> its part, which may be 0, of the variance of the mean difference."""
        seeds = len(self.differences)
        prompts = len(self.prompts)
        variance_of_seeds = (self.seed_variance or 0.0) / seeds
        sources: dict[SourceName, Source] = {
            "items": Source(self.item_variance or 0.0, self.item_degrees),
            "seeds": Source(variance_of_seeds, seeds - 1),
        }
        if prompts > 1:
            variance_of_prompts = (self.prompt_variance or 0.0) / prompts
            sources["prompts"] = Source(variance_of_prompts, prompts - 1)
        return sources

    @property
    def estimate(self) -> EstimatedDifference:
        """The mean difference with the sources of variance that are not 0; requires `differences`."""
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
    """Row -> seed -> score in the last column."""
    components: ComponentStore
    """Cache of the scores' item components, since several tests use the same ones."""

    def contrast(self, weights: Mapping[Key, float]) -> Judged:
        """Test the weighted sum of the rows' scores, such as a label's effect, like a difference of two cells.

        The weights must sum to 0, so that the difficulty that an item has for all cells cancels.
        """
        terms = []
        columns = []
        for row, weight in weights.items():
            scores = self.column.get(row, {})
            columns.append(scores)
            terms.append((weight, scores))

        shared = shared_seeds(columns)
        if not shared:
            return Judged(reason="no seed has a score of all cells")
        return with_test(weighted_sum(terms, self.components))

    def pairs(self, rows: Sequence[Key]) -> dict[tuple[Key, Key], Judged]:
        """Compare each pair of `rows`: the second row minus the first, seed by seed, before any correction.

        The rows must have finite scores. The item components of each score are computed once, so a pair
        costs only one subtraction per seed.
        """
        judged = {}
        for first, second in combinations(rows, 2):
            before = self.column.get(first, {})
            after = self.column.get(second, {})
            judged[first, second] = with_test(compared(before, after, self.components))
        return judged


def common_basis(bases: Collection[Basis]) -> Basis:
    """Return the basis that names every source of variance of these tests; at least one test is needed."""
    names = " ".join(bases)
    return _BASES["items" in names, "prompts" in names, "seeds" in names]


def judge_cell(
    before: Scored,
    after: Scored,
    components: ComponentStore,
) -> Judged:
    """Test a cell's scores `after` against the baseline's scores `before`, as the module describes.

    If the two were scored on different items, the result has the reason in place of a test.
    """
    return with_test(compared(before, after, components))


def compared(
    before: Scored,
    after: Scored,
    store: ComponentStore,
) -> Judged:
    """Return the differences `after` minus `before`, seed by seed, before any test."""
    return weighted_sum([(-1.0, before), (1.0, after)], store)


def weighted_sum(
    terms: Sequence[tuple[float, Scored]], store: ComponentStore
) -> Judged:
    """Return a weighted sum of scores, seed by seed, before any test.

    `terms` are pairs of a weight and the scores of a cell. Only seeds that all these cells have are used.
    """
    import numpy as np

    weights = []
    columns = []
    for weight, scores in terms:
        weights.append(weight)
        columns.append(scores)

    seeds = shared_seeds(columns)
    all_scores: list[AnyScore] = []
    values = {}
    for seed in seeds:
        all_scores += [scores[seed] for scores in columns]
        values[seed] = sum(weight * scores[seed].value for weight, scores in terms)
    try:
        prompts = sums_under_prompts(terms, seeds)
        components = store.of_all(all_scores)
    except RunError as error:
        return Judged(reason=str(error))
    if not components:
        return Judged(values, prompts=prompts)

    # `components` has those of all terms under the first seed, then those of all terms under the second, ...
    values_of_items: list[Floats] = []
    for first in range(0, len(components), len(terms)):
        of_terms = components[first : first + len(terms)]
        values_of_terms = [component.values for component in of_terms]
        values_of_items.append(np.dot(weights, values_of_terms))
    return _with_item_variance(values, values_of_items, components[0], prompts)


def shared_seeds(columns: Sequence[Mapping[int, object]]) -> list[int]:
    """Return the seeds that all columns have, in the order of the first column; at least one column is needed."""
    shared = set(columns[0]).intersection(*columns[1:])
    return [seed for seed in columns[0] if seed in shared]


def sums_under_prompts(
    terms: Sequence[tuple[float, Scored]], seeds: Sequence[int]
) -> dict[str, float]:
    """Return prompt -> weighted sum of the scores under this prompt, as the mean over the seeds.

    The result is empty without prompts, and for prompts that are not a sample.

    Raises:
        RunError: if the scores are not all under the same prompts.
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
            "the scores are not under the same prompts, so they cannot be compared"
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


def _with_item_variance(
    values: Mapping[int, float],
    values_of_items: Sequence[Floats],
    layout: ItemComponents,
    prompts: Mapping[str, float],
) -> Judged:
    """Return a comparison of the values, one per seed, before any test; it has the variance due to the items.

    `values_of_items` has one array per seed: the item components of this seed's value, for the items that
    `layout` describes. `prompts` has the mean over the seeds under each prompt, if the prompts are a sample.
    """
    import numpy as np

    mean: Floats = np.mean(values_of_items, axis=0)
    variance = layout.variance(mean)
    seed_variance = _sample_variance(values.values())
    if seed_variance is not None and not prompts:
        seeds = len(values)
        interaction = sum(layout.variance(part - mean) for part in values_of_items)
        interaction /= seeds * (seeds - 1)
        variance = max(0.0, variance - min(interaction, seed_variance / seeds))
    return Judged(values, variance, layout.degrees(mean), prompts)


def _sample_variance(values: Collection[float]) -> float | None:
    """Return the sample variance, 0 if values differ only by rounding; None for fewer than two values."""
    if len(values) < 2:
        return None
    if max(values) - min(values) <= _ROUNDING:
        return 0.0
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


def with_test(judged: Judged, confidence: float = CONFIDENCE) -> Judged:
    """Return the comparison with its interval and p-value, or with the reason why it has none."""
    if judged.reason:
        return judged
    if not judged.differences:
        return attrs.evolve(judged, reason="no seed has a score of both")
    if not all(map(math.isfinite, judged.differences.values())):
        return Judged(reason="a score is not finite")

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
    p_value = 1.0
    if not is_certain:
        p_value = estimate.p_value()
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


def corrected(judged: Mapping[Key, Judged]) -> dict[Key, Judged]:
    """Return the comparisons of a family with their p-values corrected; see `holm`."""
    p_values = {}
    for key, comparison in judged.items():
        if comparison.p_value is not None:
            p_values[key] = comparison.p_value

    result = dict(judged)
    for key, p_value in holm(p_values).items():
        result[key] = attrs.evolve(judged[key], corrected=p_value)
    return result


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return the p-values of a family, corrected by Holm's method (1979), in the order of `p_values`."""
    result = dict(p_values)
    largest = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        hypotheses_left = len(p_values) - rank
        adjusted = min(1.0, hypotheses_left * p_values[key])
        largest = max(largest, adjusted)
        result[key] = largest
    return result


def mean_column(
    columns: Sequence[Mapping[int, ScoreOfSeed]],
) -> dict[int, MeanScore | PromptScores]:
    """Return seed -> a cell's mean over several columns, for the seeds with a score in all these columns."""
    if not columns:
        return {}
    means = {}
    for seed in shared_seeds(columns):
        means[seed] = _mean_over_tasks([column[seed] for column in columns])
    return means


def _mean_over_tasks(scores: Sequence[ScoreOfSeed]) -> MeanScore | PromptScores:
    """Return the mean over the tasks of one seed's scores; in a study with prompts, one mean per prompt."""
    of_task = []
    under_prompts = []
    for score in scores:
        if isinstance(score, PromptScores):
            under_prompts.append(score)
        else:
            of_task.append(score)
    if not under_prompts:
        return MeanScore(tuple(of_task))

    means = {}
    for prompt in under_prompts[0].of_prompts:
        scores_of_tasks: list[Score] = []
        for task in under_prompts:
            scores_of_tasks += parts_of(task.of_prompts[prompt])
        means[prompt] = MeanScore(tuple(scores_of_tasks))
    return PromptScores(means, under_prompts[0].are_sample)


def average_column(
    columns: Sequence[Mapping[Key, Mapping[int, ScoreOfSeed]]],
    averages: Mapping[Key, Mapping[int, ScoreOfSeed]],
) -> dict[Key, Scored]:
    """Return the scores of the column that averages other columns: row -> seed -> score.

    `averages` has the averages that the evaluator reports. If it is empty, the means of the columns are
    returned. Otherwise, the result has only the rows with a reported average. If every reported average has no
    items and equals the mean of the columns, the means are returned in its place, since a test over items needs
    the items of the columns.
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
    """Whether a reported average has no items and equals `mean`, the mean of the columns."""
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
