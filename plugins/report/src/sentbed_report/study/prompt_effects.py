"""Scores of a study's cells under each of its prompts, and how much prompts, seeds and items vary them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from sentbed_report.statistics.item_components import ComponentStore, PromptScores
from sentbed_report.statistics.significance import Judged, weighted_sum, with_test
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary


@attrs.frozen
class RowUnderPrompts:
    """A row of a table under each prompt, in the table's last column."""

    row: SummaryRow
    means: Mapping[str, float]
    """Prompt -> mean over the seeds under this prompt."""
    stds: Mapping[str, float]
    """Source of variance -> standard deviation over prompts or over seeds, or standard error due to the items.

    They are those of the difference from the baseline; in a study without a baseline, of the score. Unknown
    sources are left out: prompts that are not a sample, a single seed, and scores without items.
    """


def rows_under_prompts(summary: Summary) -> tuple[RowUnderPrompts, ...]:
    """Return the rows of a table that have scores under all prompts; none in a study without prompts."""
    if not summary.prompts or summary.columns[-1].cost or not summary.measured:
        return ()

    rows = []
    for row in summary.rows:
        scores = {}
        for seed, score in summary.measured[-1].get(row.key, {}).items():
            if isinstance(score, PromptScores):
                scores[seed] = score
        if not scores or not row.cells[-1].is_finite:
            continue

        judged = row.cells[-1].judged
        if summary.baseline is None:
            judged = with_test(weighted_sum([(1.0, scores)], ComponentStore()))
        means = {}
        for prompt in summary.prompts:
            values = [of_seed.of_prompts[prompt].value for of_seed in scores.values()]
            means[prompt] = math.fsum(values) / len(values)
        rows.append(RowUnderPrompts(row, means, _stds(judged)))
    return tuple(rows)


def _stds(judged: Judged | None) -> dict[str, float]:
    """Return the standard deviation of each source of variance of a comparison; see `RowUnderPrompts.stds`."""
    if judged is None or judged.p_value is None:
        return {}
    variances = {
        "prompts": judged.prompt_variance,
        "seeds": judged.seed_variance,
        "items": judged.item_variance,
    }
    stds = {}
    for name, variance in variances.items():
        if variance is not None:
            stds[name] = math.sqrt(variance)
    return stds
