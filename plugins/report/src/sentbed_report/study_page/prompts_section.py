"""Section on the prompts of a study: sources of variance, ranks under each prompt, and the best prompt."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from sentbed_report.formatting import count
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.significance import SourceName
from sentbed_report.study.prompt_effects import RowUnderPrompts, rows_under_prompts
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_Effects: TypeAlias = tuple[Summary, Sequence[RowUnderPrompts]]
"""A table, and its rows with their scores under each prompt."""


def prompts_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section; None in a study without prompts, or if no seed has scores under every prompt yet."""
    if not data.prompts:
        return None

    effects = []
    for summary in summaries:
        if summary.metric or summary.columns[-1].direction == "none":
            continue
        rows = rows_under_prompts(summary)
        if rows:
            effects.append((summary, rows))
    if not effects:
        return None

    tables = []
    for summary, rows in effects:
        sources = _sources_table(summary, rows)
        if sources.rows:
            tables.append(sources)
        tables.append(_ranks_table(summary, rows))
        tables.append(_best_table(summary, rows))
    return Section(
        "Prompts",
        _line(*effects[0]),
        [*_sentences(data, effects)],
        tables,
        [*_notes(data, effects)],
    )


def _line(summary: Summary, rows: Sequence[RowUnderPrompts]) -> str:
    """Return a line on the cells that are the best under at least one prompt."""
    prompts = count(len(summary.prompts), "prompt")
    firsts = [row.row.name for row in rows if 1 in row.ranks.values()]
    if not firsts:
        return prompts
    under = f"{prompts} in {title_of(summary)}"
    if len(firsts) == 1:
        return f"{firsts[0]} is the best under each of {under}"
    ranked = 0
    for row in rows:
        if row.ranks:
            ranked += 1
    return f"{len(firsts)} of {ranked} cells are the best under at least one of {under}"


def _sentences(data: StudyData, effects: Sequence[_Effects]) -> Iterator[str]:
    prompts = count(len(data.prompts), "prompt")
    if data.prompt_factor == "fixed":
        yield (
            f'The {prompts} are all that are of interest (`prompt_factor = "fixed"`): scores are means over '
            "them, and the tests and intervals of this report say nothing about other prompts."
        )
    else:
        yield (
            f"Every cell was run with each of {prompts}, a sample of the prompts that might be used. In tests "
            "and intervals, prompts are a source of variance like seeds and items, so that the results hold "
            "for other prompts of this kind, too."
        )
    fewest = min(len(row.row.cells[-1].seeds) for _, rows in effects for row in rows)
    if fewest == 1:
        yield "One seed does not show how much scores differ between seeds."


def _sources_table(summary: Summary, rows: Sequence[RowUnderPrompts]) -> Table:
    digits = summary.digits
    headings: dict[SourceName, str] = {
        "prompts": "std over prompts",
        "seeds": "std over seeds",
        "items": "error of items",
    }

    measured = _sources(rows)
    names = [name for name in headings if name in measured]
    columns = []
    for name in names:
        columns.append(Column(headings[name], digits=digits))
    for name in names:
        columns.append(Column(f"share of {name}", form="share"))

    lines: list[list[Value]] = []
    for row in rows:
        if row.sources is not None:
            stds = map(row.sources.stds.get, names)
            shares = map(row.sources.shares.get, names)
            lines.append([row.row, *stds, *shares])

    what = "score"
    if summary.baseline is not None:
        what = f"difference from {summary.baseline}"
    return table_of(
        f"{title_of(summary)}: sources of variance of the {what}",
        ["cell"],
        columns,
        lines,
    )


def _sources(rows: Sequence[RowUnderPrompts]) -> set[SourceName]:
    """Return the sources of variance that are known for at least one row."""
    names: set[SourceName] = set()
    for row in rows:
        if row.sources is not None:
            names.update(row.sources.stds)
    return names


def _ranks_table(summary: Summary, rows: Sequence[RowUnderPrompts]) -> Table:
    columns: list[Column | str] = []
    for prompt in summary.prompts:
        columns.append(Column(prompt, digits=summary.digits))
    columns.append("ranks")
    lines = []
    for row in rows:
        values: list[Value] = [row.row]
        for prompt in summary.prompts:
            values.append(Estimate(value=row.means[prompt], rank=row.ranks.get(prompt)))
        lines.append([*values, row.rank_range or None])
    title = f"{title_of(summary)}: means over the seeds under each prompt, with ranks"
    return table_of(title, ["cell"], columns, lines)


def _best_table(summary: Summary, rows: Sequence[RowUnderPrompts]) -> Table:
    digits = summary.digits
    columns = (
        f"best of {len(summary.prompts)} prompts",
        Column("score under it", digits=digits),
        Column("mean over all", digits=digits),
        Column("lead", form="signed", digits=digits),
        Column("lead by the choice", digits=digits),
    )
    lines = []
    for row in rows:
        best = row.best
        lead = best.score - best.mean
        lines.append((row.row, best.prompt, best.score, best.mean, lead, best.optimism))
    title = f"{title_of(summary)}: the best prompt of each cell"
    return table_of(title, ["cell"], columns, lines)


def _notes(data: StudyData, effects: Sequence[_Effects]) -> Iterator[str]:
    names: set[SourceName] = set()
    for _, rows in effects:
        names |= _sources(rows)
    if names:
        yield _note_on_sources(names)
    yield (
        f"The best of {len(data.prompts)} prompts was chosen by the scores that are shown here. A comparison "
        "of one cell under its best prompt with another cell under any prompt therefore shows differences "
        "that do not exist. Of the lead over the mean of all prompts, the part “by the choice” is expected to "
        "vanish on new items and seeds (regression to the mean). With another prompt of this kind, the whole "
        "lead is expected to vanish."
    )


def _note_on_sources(names: Collection[SourceName]) -> str:
    """Return the note that explains the table of sources of variance; `names` are its sources."""
    repeated = [name for name in ("prompts", "seeds") if name in names]
    parts = []
    if repeated:
        single = " and ".join(f"single {name}" for name in repeated)
        parts.append(f"standard deviations are those over {single}")
    if "items" in names:
        parts.append("the error of the items is that of the whole test set")
    text = f"Sources: {', '.join(parts)}."
    if len(names) > 1:
        text += (
            f" Shares are those of the variance of the mean: the variance over {' and '.join(repeated)} is "
            "divided by their number. The source with the largest share is the one to have more of."
        )
    return text
