"""Tables of finished runs and studies with a selection of their scores, for the command `sentbed table`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import Score

from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.read_study_directory import is_study
from sentbed_report.study.runs_as_study import runs_as_study
from sentbed_report.study.study_data import CellRun, StudyData, with_runs
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.table import Cell, Header, Row, Table


def selected_tables(
    directories: Sequence[Path],
    evaluator: str | None = None,
    protocol: str | None = None,
    metric: str | None = None,
) -> tuple[Summary, ...]:
    """Return the tables of runs and studies: one row per cell and encoder, with means over seeds.

    Runs that differ only in their seed are one cell. `protocol` is the id of a protocol. Encoders before training
    have rows only in tables of runs. Costs of runs are only in the tables of studies, and only if nothing is
    selected.

    Raises:
        RunError: if no score is left.
    """
    data = runs_as_study(directories)
    of_studies = any(map(is_study, directories))
    if not of_studies:
        data = attrs.evolve(data, cells=with_runs(data.cells, _without_cost))

    data = _only(data, "evaluator", evaluator, attrgetter("evaluator"))
    data = _only(data, "protocol", protocol, attrgetter("protocol_id"))
    data = _only(data, "metric", metric, attrgetter("metric"))
    summaries = summarise(data, start=not of_studies, all_pairs=of_studies)
    if not summaries:
        raise RunError(
            "none of the runs has finished with scores; add an `[[evaluate]]` to their recipes"
        )
    return summaries


def _without_cost(run: CellRun) -> CellRun:
    """Return a run without its cost, which else has columns in the tables."""
    return attrs.evolve(run, cost=None)


def pivoted(summary: Summary, axes: Sequence[str]) -> Table:
    """Return the last column of a table by two axes: the first of `axes` as rows, the second as columns.

    The labels of further axes are added to the rows.

    Raises:
        RunError: if the table has no such axes.
    """
    axes_of_rows = _axes_of_rows(summary, axes)
    headers = list(map(Header, axes_of_rows))
    if any(row.name != row.cell for row in summary.rows):
        headers.append(Header("encoder"))

    _, across = axes
    labels: dict[str, None] = {}
    cells_of_rows: defaultdict[tuple[str, ...], dict[str, Cell]] = defaultdict(dict)
    for row in summary.rows:
        headings = [row.labels[axis] for axis in axes_of_rows]
        if row.name != row.cell:
            headings.append(row.encoder)
        label = row.labels[across]
        labels[label] = None
        cells_of_rows[tuple(headings)][label] = row.cells[-1]

    last = summary.columns[-1]
    columns = []
    for label in labels:
        columns.append(attrs.evolve(last, heading=label, group=across))
    rows = []
    for row_headers, cell_of_label in cells_of_rows.items():
        cells = map(cell_of_label.get, labels)
        rows.append(Row(row_headers, tuple(cells)))
    return attrs.evolve(
        summary.table,
        title=f"{summary.title}, {last.heading}",
        headers=tuple(headers),
        columns=tuple(columns),
        rows=tuple(rows),
        is_one_score=True,
    )


def _axes_of_rows(summary: Summary, axes: Sequence[str]) -> list[str]:
    """Return the first of `axes`, which two axes have to be, and the further axes of the study.

    Raises:
        RunError: if they are one axis, or the study has no such axes.
    """
    axes_of_study: list[str] = []
    if summary.rows:
        axes_of_study += summary.rows[0].labels
    for axis in axes:
        if axis not in axes_of_study:
            suggestion = suggest(axis, axes_of_study)
            raise RunError(f"the study has no axis `{axis}`.{suggestion}")

    down, across = axes
    if down == across:
        raise RunError(f"`{down}` cannot stand on both sides; name two axes")

    axes_of_rows = [down]
    for axis in axes_of_study:
        if axis not in axes:
            axes_of_rows.append(axis)
    return axes_of_rows


def _only(
    data: StudyData,
    what: str,
    value: str | None,
    of_score: Callable[[Score], str],
) -> StudyData:
    """Return a study with the scores for which `of_score` returns `value`; with all scores if `value` is None."""
    if value is None:
        return data
    values: dict[str, None] = {}
    for run in data.runs:
        values |= dict.fromkeys(map(of_score, run.scores))
    if value not in values:
        suggestion = suggest(value, list(filter(None, values)))
        raise RunError(f"no score is of the {what} `{value}`.{suggestion}")

    def selected(run: CellRun) -> CellRun:
        scores = []
        for score in run.scores:
            if of_score(score) == value:
                scores.append(score)
        return attrs.evolve(run, scores=tuple(scores), cost=None)

    return attrs.evolve(data, cells=with_runs(data.cells, selected))
