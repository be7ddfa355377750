"""Section on the prompts of a study: scores under each prompt, and how much prompts, seeds and items vary."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.study.prompt_effects import RowUnderPrompts, rows_under_prompts
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

_HEADINGS = {
    "prompts": "std over prompts",
    "seeds": "std over seeds",
    "items": "error of items",
}
"""Source of variance -> heading of its standard deviation."""

_NOTES = (
    "Standard deviations are those over single prompts and seeds of the difference from the baseline, or, "
    "without a baseline, of the score; the error of the items is that of the whole test set.",
    "The best of several prompts is the best partly by chance: comparing a cell under its best prompt with "
    "another cell shows differences that do not exist.",
)


def prompts_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None in a study without prompts, or if no seed has scores under every prompt yet."""
    tables = []
    lines = []
    for summary in summaries:
        if summary.metric or summary.columns[-1].direction == "none":
            continue
        rows = rows_under_prompts(summary)
        if rows:
            tables.append(_table(summary, rows))
            lines.append(_line(summary, rows))
    if not tables:
        return None

    prompts = count(len(data.prompts), "prompt")
    sentence = (
        f"Every cell was run with each of {prompts}, a sample of the prompts that might be used. In tests and "
        "intervals, prompts are a source of variance like seeds and items, so that the results hold for other "
        "prompts of this kind, too."
    )
    if data.prompt_factor == "fixed":
        sentence = (
            f'The {prompts} are all that are of interest (`prompt_factor = "fixed"`): scores are means over '
            "them, and the tests and intervals of this report say nothing about other prompts."
        )
    return Section("Prompts", lines[0], [sentence], tables, _NOTES)


def _line(summary: Summary, rows: Sequence[RowUnderPrompts]) -> str:
    """Return a line on the cells that are the best under at least one prompt."""
    firsts: dict[str, None] = {}
    for prompt in summary.prompts:
        means = {row.row.name: row.means[prompt] for row in rows}
        best = max(means.values())
        if summary.columns[-1].lower:
            best = min(means.values())
        for name, mean in means.items():
            if mean == best:
                firsts[name] = None

    under = f"{count(len(summary.prompts), 'prompt')} in {title_of(summary)}"
    if len(firsts) == 1:
        return f"{next(iter(firsts))} is the best under each of {under}"
    return (
        f"{len(firsts)} of {len(rows)} cells are the best under at least one of {under}"
    )


def _table(summary: Summary, rows: Sequence[RowUnderPrompts]) -> Table:
    """Return a table of the mean under each prompt, and of the standard deviations that are known."""
    sources: list[str] = []
    for name in _HEADINGS:
        if any(name in row.stds for row in rows):
            sources.append(name)

    headings = [*summary.prompts, *map(_HEADINGS.__getitem__, sources)]
    columns = [Column(heading, digits=summary.digits) for heading in headings]
    lines = []
    for row in rows:
        values: list[Value] = [row.row]
        values += map(row.means.__getitem__, summary.prompts)
        values += map(row.stds.get, sources)
        lines.append(values)
    title = f"{title_of(summary)}: means over the seeds under each prompt"
    return table_of(title, ["cell"], columns, lines)
