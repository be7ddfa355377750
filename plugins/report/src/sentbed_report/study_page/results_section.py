"""The results of a study: its cells with dots and intervals, the effects of its axes, and all its scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import attrs

from sentbed_report.dots import Dot, limits
from sentbed_report.figures.study_figures import effect_plots, score_dots
from sentbed_report.formatting import first_names
from sentbed_report.page.sections import Section
from sentbed_report.study.axis_effects import together_with
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.answer import main_table, open_runs
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Place
from sentbed_report.tables.table import Cell, DrawnInterval, Header, Row, Table


def results_section(data: StudyData, summaries: Sequence[Summary]) -> Section:
    """Return the section with a row per cell: labels, deciding score, and its dot and interval."""
    main = main_table(summaries)
    if main is None:
        note = "No run has finished with scores that rank the cells."
        return Section("Results", notes=[note], is_open=True)
    return Section("Results", tables=[_cells_table(data, main)], is_open=True)


def _cells_table(data: StudyData, main: Summary) -> Table:
    """Return the table of the cells, the best first: score, drawn interval and ranks.

    While runs are open, no row has the tone of the best.
    """
    tones = {}
    ranks = {}
    if main.groups is not None:
        for place, compared in enumerate(main.groups.rows):
            tone = "alike"
            if place == 0:
                tone = "best"
            elif compared.beaten:
                tone = "worse"
            tones[compared.name] = tone
            ranks[compared.name] = compared.ranks
    if open_runs(data):
        tones = {}

    intervals = _drawn_intervals(main)
    rows = {}
    for row, shown in zip(main.rows, main.table.rows, strict=False):
        tone = tones.get(row.name, "")
        place_of_best: Place | None = None
        if tone == "best":
            place_of_best = 1
        score = attrs.evolve(
            row.cells[-1],
            place=place_of_best,
            judged=None,
            rank=None,
            published=(),
        )
        cells = (score, intervals.get(row.name), ranks.get(row.name))
        rows[row.name] = attrs.evolve(shown, cells=cells, tone=tone)

    columns = (
        attrs.evolve(main.columns[-1], address=""),
        Column("95 % interval"),
        Column("rank"),
    )
    names = dict.fromkeys([*intervals, *rows])
    return attrs.evolve(
        main.table,
        title=main.note,
        columns=columns,
        rows=tuple(rows[name] for name in names),
        notes=tuple(_notes_on_intervals(main)),
    )


def _drawn_intervals(main: Summary) -> dict[str, DrawnInterval]:
    """Return name of a row -> its dot with the interval, the best first; rows without a test have a dot alone."""
    dots = {dot.name: dot for dot in score_dots(main)}
    for row in main.rows:
        value = row.cells[-1].value
        if row.name not in dots and value is not None and row.cells[-1].is_finite:
            dots[row.name] = Dot(row.name, value, strong=False)
    if not dots:
        return {}
    best = next(iter(dots.values())).value
    first, last = limits(list(dots.values()), best)
    return {name: DrawnInterval(dot, best, first, last) for name, dot in dots.items()}


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
    plots = list(effect_plots(data, [main]))
    if not plots:
        return None
    notes = []
    for axis in data.axes:
        others = ", ".join(together_with(data, axis))
        if others:
            notes.append(
                f"{axis.name} changes together with {others}: their effects cannot be separated."
            )
    notes.append(
        "Mean difference over the pairs of cells that differ in this axis alone, with its 95 % interval; grey: "
        "not significant after correction for all labels."
    )
    return Section("Effects", notes=notes, plots=plots, is_open=True)


def scores_section(summaries: Sequence[Summary]) -> Section | None:
    """Return the section with all scores in one wide table, marked by their tests; None if there are none."""
    if not summaries:
        return None
    return Section("All scores", tables=[wide_table(summaries)], is_open=True)


def wide_table(summaries: Sequence[Summary]) -> Table:
    """Join the tables of a study into one: a row per cell, a column per axis, then the columns of each table.

    Scores on development data come last, and so do rows of published systems.
    """
    summaries = sorted(summaries, key=lambda summary: summary.development)
    tables = [summary.table for summary in summaries]
    columns: list[Column] = []
    rows: dict[tuple[str, ...], Row] = {}
    numbers: defaultdict[tuple[str, ...], dict[int, Cell]] = defaultdict(dict)
    for summary, table in zip(summaries, tables, strict=True):
        for row in table.rows:
            key = row.headers[:2]
            rows.setdefault(key, row)
            numbers[key].update(enumerate(row.cells, start=len(columns)))
        group = ""
        if len(tables) > 1:
            group = _group(summary)
        for column in table.columns:
            columns.append(attrs.evolve(column, group=group))

    headers = []
    for place, header in enumerate(tables[0].headers):
        shown = any(table.headers[place].shown for table in tables)
        headers.append(Header(header.name, shown))

    with_scores = {cell for cell, encoder in rows if encoder}
    joined = []
    for key, row in rows.items():
        cell, encoder = key
        # A cell without an encoder has no scores in one of the tables.
        if not encoder and cell in with_scores:
            continue
        cells = tuple(map(numbers[key].get, range(len(columns))))
        joined.append(attrs.evolve(row, cells=cells))
    joined.sort(key=lambda row: row.is_reference)
    return attrs.evolve(
        tables[0],
        title="",
        headers=tuple(headers),
        columns=tuple(columns),
        rows=tuple(joined),
        notes=tuple(_notes(summaries)),
    )


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


def _notes(summaries: Sequence[Summary]) -> Iterator[str]:
    """Yield the notes of the tables, each once. A note that not all tables have begins with their evaluators."""
    evaluators_of_notes: defaultdict[str, list[str]] = defaultdict(list)
    for summary in summaries:
        for note in summary.notes:
            evaluators_of_notes[note].append(summary.evaluator)
    for note, evaluators in evaluators_of_notes.items():
        if len(evaluators) == len(summaries):
            yield note
        else:
            yield f"{', '.join(dict.fromkeys(evaluators))}: {note}"
