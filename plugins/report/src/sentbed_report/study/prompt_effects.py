"""Effects of a study's prompts: shares of the variance, ranks under each prompt, and a cell's best prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import attrs

from sentbed_report.formatting import range_text
from sentbed_report.statistics.best_prompt import BestPrompt, best_prompt
from sentbed_report.statistics.item_components import ComponentStore, PromptScores
from sentbed_report.statistics.significance import (
    Judged,
    Scored,
    SourceName,
    weighted_sum,
    with_test,
)
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.estimate import MEAN_DECIMALS


@attrs.frozen
class VarianceSources:
    """Sources of variance of a row's difference from the baseline; without a baseline, of its score.

    An unknown source is left out: seeds if there is only one, items if the score has none, and prompts if they
    are not a sample.
    """

    stds: Mapping[SourceName, float]
    """Source -> standard deviation over prompts or over seeds; for items, the standard error."""
    shares: Mapping[SourceName, float]
    """Source -> its share of the variance of the estimate, in [0, 1]; the shares sum to 1."""


@attrs.frozen
class RowUnderPrompts:
    """A row of a table under each prompt, in the table's last column."""

    row: SummaryRow
    means: Mapping[str, float]
    """Prompt -> mean over the seeds under this prompt."""
    ranks: Mapping[str, int]
    """Prompt -> rank of the row under this prompt, from 1; equal means share the smallest of their ranks."""
    sources: VarianceSources | None
    """Sources of variance; None for the baseline, and if no source is known."""
    best: BestPrompt

    @property
    def rank_range(self) -> str:
        """Best and worst rank over the prompts, such as `1 to 3`; empty if the row has no ranks."""
        if not self.ranks:
            return ""
        ranks = self.ranks.values()
        return range_text(min(ranks), max(ranks))


def rows_under_prompts(summary: Summary) -> tuple[RowUnderPrompts, ...]:
    """Return the rows of a table that have scores under all prompts; none in a study without prompts."""
    column = summary.columns[-1]
    if not summary.prompts or column.cost or not summary.measured:
        return ()

    store = ComponentStore()
    if summary.scores is not None:
        store = summary.scores.components

    scores_of_rows: dict[int, dict[int, PromptScores]] = {}
    means: dict[int, dict[str, float]] = {}
    ranked = []
    for number, row in enumerate(summary.rows):
        last = row.cells[-1]
        scores = _under_prompts(summary.measured[-1].get(row.key, {}))
        if not scores or not all(map(math.isfinite, last.seeds.values())):
            continue
        scores_of_rows[number] = scores
        means[number] = _means_over_seeds(summary.prompts, scores)
        is_complete = row.status == "finished"
        if column.ranked and is_complete and not last.degenerate:
            ranked.append(number)

    rows = []
    for number, scores in scores_of_rows.items():
        row = summary.rows[number]
        ranks = {}
        if number in ranked:
            for prompt in summary.prompts:
                ranks[prompt] = _rank(number, prompt, ranked, means, column.lower)
        row_under_prompts = RowUnderPrompts(
            row,
            means[number],
            ranks,
            _sources_of_row(summary, row, scores, store),
            best_prompt(scores, store, column.lower),
        )
        rows.append(row_under_prompts)
    return tuple(rows)


def _under_prompts(scores: Scored) -> dict[int, PromptScores]:
    """Return seed -> scores, for the seeds that have scores under several prompts."""
    under_prompts = {}
    for seed, score in scores.items():
        if isinstance(score, PromptScores):
            under_prompts[seed] = score
    return under_prompts


def _means_over_seeds(
    prompts: Sequence[str], scores: Mapping[int, PromptScores]
) -> dict[str, float]:
    """Return prompt -> mean over the seeds under this prompt."""
    means = {}
    for prompt in prompts:
        values = [of_seed.of_prompts[prompt].value for of_seed in scores.values()]
        means[prompt] = math.fsum(values) / len(values)
    return means


def _rank(
    number: int,
    prompt: str,
    ranked: Sequence[int],
    means: Mapping[int, Mapping[str, float]],
    lower: bool,
) -> int:
    """Return the rank of a row under a prompt.

    Means are compared to `MEAN_DECIMALS` (9) decimals, not as they are printed.
    """
    value = round(means[number][prompt], MEAN_DECIMALS)
    lower_values = 0
    higher_values = 0
    for other in ranked:
        value_of_other = round(means[other][prompt], MEAN_DECIMALS)
        if value_of_other < value:
            lower_values += 1
        if value_of_other > value:
            higher_values += 1
    if lower:
        return lower_values + 1
    return higher_values + 1


def _sources_of_row(
    summary: Summary,
    row: SummaryRow,
    scores: Mapping[int, PromptScores],
    store: ComponentStore,
) -> VarianceSources | None:
    """Return the sources of variance of a row's difference from the baseline; None if they are unknown.

    In a study without a baseline, they are those of the row's score.
    """
    judged = row.cells[-1].judged
    if summary.baseline is None:
        judged = with_test(weighted_sum([(1.0, scores)], store))
    if judged is None or judged.p_value is None:
        return None
    return sources_of(judged)


def sources_of(judged: Judged) -> VarianceSources | None:
    """Return the sources of variance of a comparison; None if nothing varies."""
    total = judged.estimate.variance
    if total <= 0:
        return None

    variances: dict[SourceName, float | None] = {
        "prompts": judged.prompt_variance,
        "seeds": judged.seed_variance,
        "items": judged.item_variance,
    }
    stds: dict[SourceName, float] = {}
    shares: dict[SourceName, float] = {}
    for name, variance in variances.items():
        if variance is not None:
            stds[name] = math.sqrt(variance)
            shares[name] = judged.sources[name].variance / total
    return VarianceSources(stds, shares)
