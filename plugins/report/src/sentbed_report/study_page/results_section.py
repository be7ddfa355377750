"""The results of a study: its cells with dots and intervals, the effects of its axes, and all its scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.dots import Dot, limits
from sentbed_report.figures.study_figures import effect_plots, score_dots
from sentbed_report.formatting import first_names
from sentbed_report.page.sections import Section
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.axis_effects import axis_findings
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_row import SummaryRow
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.answer import main_table, open_runs
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, DrawnInterval, Header, Row, Table


def results_section(data: StudyData, summaries: Sequence[Summary]) -> Section:
    """Return the section with a row per cell: labels, deciding score, and its dot and interval."""
    main = main_table(summaries)
    if main is None:
        sentence = "No run has finished with scores that rank the cells."
        if not summaries:
            sentence = "No run has finished with scores yet."
        return Section("Results", sentences=[sentence], is_open=True)
    return Section("Results", tables=[_cells_table(data, main)], is_open=True)


def _cells_table(data: StudyData, main: Summary) -> Table:
    """Return the table of the cells: score, drawn interval and ranks; untinted while runs are open."""
    intervals = _drawn_intervals(main)
    ranks = {}
    if main.groups is not None:
        for compared in main.groups.rows:
            ranks[compared.name] = compared.ranks

    table = main.table
    rows_of_table = {row.headers[:2]: row for row in table.rows}
    has_open_runs = open_runs(data) > 0
    rows = []
    for row in _sorted_rows(main, list(intervals)):
        tone = ""
        if not has_open_runs:
            tone = _tone(main, row)
        cells = (_score(row, tone), intervals.get(row.name), ranks.get(row.name))
        shown = rows_of_table[row.cell, row.encoder]
        rows.append(attrs.evolve(shown, cells=cells, tone=tone))

    columns = (
        attrs.evolve(main.columns[-1], address=""),
        Column("95 % interval"),
        Column("rank"),
    )
    return attrs.evolve(
        table,
        title=main.note,
        columns=columns,
        rows=tuple(rows),
        notes=tuple(_notes_on_intervals(main)),
        is_complete=True,
    )


def _drawn_intervals(main: Summary) -> dict[str, DrawnInterval]:
    """Return name of a row -> its dot with the interval; rows that were not compared have a pale dot alone."""
    dots = {dot.name: dot for dot in score_dots(main)}
    for row in main.rows:
        score = row.cells[-1]
        if row.name in dots:
            continue
        if score.value is not None and score.is_finite:
            dots[row.name] = Dot(row.name, score.value, strong=False)
    if not dots:
        return {}

    all_dots = list(dots.values())
    best = all_dots[0].value
    first, last = limits(all_dots, best)
    intervals = {}
    for name, dot in dots.items():
        intervals[name] = DrawnInterval(dot, best, first, last)
    return intervals


def _sorted_rows(main: Summary, names: Sequence[str]) -> list[SummaryRow]:
    """Return the rows of a table: those with these names in their order, then the others."""
    by_name = {row.name: row for row in main.rows}
    rows = [by_name[name] for name in names]
    for row in main.rows:
        if row.name not in names:
            rows.append(row)
    return rows


def _tone(main: Summary, row: SummaryRow) -> str:
    """Return whether a row is the `best`, `alike` (not significantly worse) or `worse`; empty if unknown."""
    if main.groups is None or not main.groups.rows:
        return ""
    for place, compared in enumerate(main.groups.rows):
        if compared.name != row.name:
            continue
        if place == 0:
            return "best"
        if compared.beaten:
            return "worse"
        return "alike"
    return ""


def _score(row: SummaryRow, tone: str) -> Estimate:
    """Return the score of a row, with neither marks nor numbers of others; the best is bold."""
    score = row.cells[-1]
    place = None
    if tone == "best":
        place = score.place or 1
    return attrs.evolve(score, place=place, judged=None, rank=None, published=())


def _notes_on_intervals(main: Summary) -> Iterator[str]:
    """Yield what scores are means over, what an interval shows, and why cells were not tested."""
    yield main.over
    groups = main.groups
    if groups is None:
        return
    if groups.rows:
        yield (
            f"Interval: of the difference from the best cell, over {groups.basis}, drawn around the cell's mean; "
            "vertical line: the best. The chance of any false difference in a table is at most 5 %. Pale: "
            "significantly worse than the best; the other cells need not be equal to it."
        )
    names_of_reasons: defaultdict[str, list[str]] = defaultdict(list)
    for name, reason in groups.left:
        names_of_reasons[reason].append(name)
    for reason, names in names_of_reasons.items():
        yield f"Not tested: {first_names(names)}, since {reason}."


def effects_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with a small figure per axis; None if no axis has labels that can be compared."""
    main = main_table(summaries)
    if main is None:
        return None
    for findings in axis_findings(data, [main]):
        notes = []
        for effect in findings.effects:
            if effect.together:
                others = ", ".join(effect.together)
                notes.append(
                    f"{effect.axis} changes together with {others}: their effects cannot be separated."
                )
        plots = list(effect_plots(findings))
        if plots:
            notes.append(
                "Mean difference over the pairs of cells that differ in this axis alone, with its 95 % interval; "
                "grey: not significant after correction for all labels."
            )
            return Section("Effects", notes=notes, plots=plots, is_open=True)
    return None


def scores_section(data: StudyData, summaries: Sequence[Summary]) -> Section | None:
    """Return the section with all scores in one wide table; None if there are none besides the results."""
    columns = sum(len(summary.columns) for summary in summaries)
    if columns < 2:
        return None
    table = wide_table(data, summaries)
    return Section("All scores", tables=[table], is_open=True)


def wide_table(data: StudyData, summaries: Sequence[Summary]) -> Table:
    """Join several tables into one table: a row per cell, a column per axis, then the columns of each table.

    Scores on development data come last.
    """
    summaries = sorted(summaries, key=lambda summary: summary.development)
    title = ""
    if len(summaries) == 1:
        title = summaries[0].note

    tables = []
    columns: list[Column] = []
    for summary in summaries:
        tables.append(summary.table)
        group = ""
        if len(summaries) > 1:
            group = _group(summary)
        for column in summary.columns:
            columns.append(attrs.evolve(column, group=group))

    shown = []
    for axis in data.axes:
        if len(axis.labels) > 1:
            shown.append(axis_column(axis.name))
    shown = shown or ["cell"]
    names = tables[0].header_names
    rows = []
    cells = set()
    for row in _joined_rows(tables):
        if row.is_reference:
            rows.append(_named_under(row, names.index(shown[0]), len(names)))
            continue
        rows.append(row)
        # Two rows of one cell have different encoders.
        if row.cell in cells and "encoder" not in shown:
            shown.append("encoder")
        cells.add(row.cell)

    headers = [Header(name, name in shown) for name in names]
    return Table(
        title,
        tuple(headers),
        tuple(columns),
        tuple(rows),
        tuple(_notes(summaries)),
        baseline=data.baseline or "",
        is_complete=data.finished == data.total,
        ranked_within=data.ranks,
    )


def _named_under(
    row: Row,
    index: int,
    headers: int,
) -> Row:
    """Return the row of a published system with its name under the header at `index`; other headers are empty."""
    texts = [""] * headers
    texts[index] = row.headers[0]
    return attrs.evolve(row, headers=tuple(texts))


def _joined_rows(tables: Sequence[Table]) -> list[Row]:
    """Return the rows of the joined table; rows of published systems come last.

    A row without scores is left out if another table has scores of its cell.
    """
    # Cell and encoder, or published system -> index of a table -> its row.
    rows_by_key: defaultdict[tuple[str, ...], dict[int, Row]] = defaultdict(dict)
    scored = set()
    for place, table in enumerate(tables):
        for row in table.rows:
            name, encoder, *_ = row.headers
            key: tuple[str, ...] = (name, encoder)
            if row.is_reference:
                key = ("published", name, *row.tags)
            rows_by_key[key][place] = row
            if encoder:
                scored.add(row.cell)

    rows = []
    for row_of_table in rows_by_key.values():
        row, *_ = row_of_table.values()
        _, encoder, *_ = row.headers
        if row.cell in scored and not encoder:
            continue
        cells: list[Cell] = []
        for place, table in enumerate(tables):
            if place in row_of_table:
                cells += row_of_table[place].cells
            else:
                cells += [None] * len(table.columns)
        rows.append(attrs.evolve(row, cells=tuple(cells)))
    return sorted(rows, key=lambda row: row.is_reference)


def _group(summary: Summary) -> str:
    """Return the heading above all columns of a table: evaluator, protocol, metric and data that they share."""
    parts = list(summary.names)
    metrics = {column.metric for column in summary.columns if not column.average}
    if len(metrics) == 1:
        parts += metrics
    if summary.apart:
        parts.append(summary.apart)
    if summary.development:
        parts.append("development data")
    return ", ".join(parts)


def _notes(summaries: Sequence[Summary]) -> list[str]:
    """Return the notes of the tables, each once. A note that not all tables have begins with their evaluators."""
    evaluators_of_notes: defaultdict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        for note in summary.notes:
            evaluators_of_notes[note].append(summary.evaluator)

    notes = []
    for note, evaluators in evaluators_of_notes.items():
        if len(evaluators) == len(summaries):
            notes.append(note)
            continue
        names = ", ".join(dict.fromkeys(evaluators))
        notes.append(f"{names}: {note}")
    return notes
