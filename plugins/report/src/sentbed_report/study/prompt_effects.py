"""Scores of a study's cells under each of its prompts, and how much prompts, seeds and items vary them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import attrs

from sentbed_report.statistics.difference import Judged, judge
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
    sources are left out: a single seed, and scores without items.
    """


def rows_under_prompts(summary: Summary) -> tuple[RowUnderPrompts, ...]:
    """Return the rows of a table that have scores under all prompts; none in a study without prompts."""
    if not summary.prompts or summary.columns[-1].cost:
        return ()

    rows = []
    for row in summary.rows:
        scores = row.cells[-1].scores
        if scores is None or not row.cells[-1].is_finite:
            continue
        means = {}
        for prompt in summary.prompts:
            values = [scores.value((seed, prompt)) for seed in scores.seeds]
            means[prompt] = fmean(values)

        judged = row.cells[-1].judged
        if summary.baseline is None:
            judged = judge([(1.0, scores)])
        rows.append(RowUnderPrompts(row, means, _stds(judged)))
    return tuple(rows)


def _stds(judged: Judged | None) -> dict[str, float]:
    """Return the standard deviations of `RowUnderPrompts`; none without a test."""
    if judged is None or judged.estimate is None:
        return {}
    stds: dict[str, float] = {}
    for source in ("prompts", "seeds", "items"):
        if source in judged.estimate.stds:
            stds[source] = judged.estimate.stds[source]
    return stds
