"""Scores of a study's cells under each of its prompts, and how much prompts, seeds and items vary them."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

import attrs

from sentbed_report.statistics.difference import judge
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
        scores = summary.measured[-1].get(row.key)
        if scores is None or not row.cells[-1].is_finite:
            continue
        means = {}
        for prompt in summary.prompts:
            means[prompt] = fmean(scores.value((seed, prompt)) for seed in scores.seeds)

        judged = row.cells[-1].judged
        if summary.baseline is None:
            judged = judge([(1.0, scores)], summary.random)
        stds: dict[str, float] = {}
        if judged is not None and judged.estimate is not None:
            of_sources = judged.estimate.stds
            for name in ("prompts", "seeds", "items"):
                if name in of_sources:
                    stds[name] = of_sources[name]
        rows.append(RowUnderPrompts(row, means, stds))
    return tuple(rows)
