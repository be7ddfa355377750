"""Section on the prompts of a study: scores under each prompt, and how much prompts, seeds and items vary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.prompt_effects import rows_under_prompts
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

_STDS = {
    "prompts": "std over prompts",
    "seeds": "std over seeds",
    "items": "error of items",
}
"""Source of variance -> heading of its standard deviation."""


def prompts_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None in a study without prompts, or if no seed has scores under every prompt yet."""
    tables = list(_tables(summaries))
    if not tables:
        return None
    notes = [
        f"The {count(len(data.prompts), 'prompt')} are a sample of those that might be used: tests and intervals "
        "hold for other prompts of this kind, too.",
        "Standard deviations are of the difference from the baseline, or, without a baseline, of the score.",
        "The best of several prompts is the best partly by chance: compare no cell under its best prompt.",
    ]
    summary = f"each of {count(len(data.prompts), 'prompt')}"
    return Section("Prompts", summary, tables, notes)


def _tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """Yield a table of the means under each prompt, and of standard deviations, for each table of scores."""
    for summary in summaries:
        rows: list[list[Value]] = []
        for row in rows_under_prompts(summary):
            means = [row.means[prompt] for prompt in summary.prompts]
            rows.append(
                [row.row.cell, row.row.encoder, *means, *map(row.stds.get, _STDS)]
            )
        if rows and not summary.metric:
            columns = []
            for heading in (*summary.prompts, *_STDS.values()):
                columns.append(Column(heading, digits=summary.digits))
            title = f"{title_of(summary)}: means over the seeds under each prompt"
            yield table_of(title, ["cell", "encoder"], columns, rows)
