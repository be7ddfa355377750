"""Comparison of runs and studies, which are treated as one study with a baseline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from sentbed.errors import RunError, suggest

from sentbed_report.formatting import chance, probability
from sentbed_report.study.runs_as_study import runs_as_study
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData, with_runs
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Header, Row, Table


def compared_encoders(
    runs: Sequence[Path],
    encoders: Sequence[str],
    base: Path | None,
) -> StudyData:
    """Return a study with one encoder of each run as a cell with the name `RUN/ENCODER`.

    `encoders` has one name for all runs, or one name per run; a run may be given twice. For `base`, see
    `runs_as_study`.

    Raises:
        RunError: if a run has no scores of its encoder, or an encoder of a run is given twice.
    """
    data = runs_as_study(runs, base, is_row_each=True)
    names = list(encoders)
    if len(encoders) == 1:
        names *= len(data.cells)
    cells: dict[str, CellInfo] = {}
    for cell, encoder in zip(data.cells, names, strict=True):
        cell_of_encoder = _with_encoder(cell, encoder)
        name = cell_of_encoder.name
        if name in cells:
            raise RunError(
                f"`{name}` is given twice; name another encoder of it with `--encoder`"
            )
        cells[name] = cell_of_encoder
    return attrs.evolve(data, cells=tuple(cells.values()), baseline=next(iter(cells)))


def _with_encoder(cell: CellInfo, encoder: str) -> CellInfo:
    """Return a cell with one encoder's scores. In all cells, they get one encoder name, to be compared."""
    encoders: dict[str, None] = {}
    for run in cell.runs:
        encoders |= dict.fromkeys(score.encoder for score in run.scores)
    if encoder not in encoders:
        raise RunError(
            f"the run `{cell.name}` has no scores of an encoder `{encoder}`."
            f"{suggest(encoder, list(encoders))}"
        )
    name = f"{cell.name}/{encoder}"

    def renamed(run: CellRun) -> CellRun:
        scores = []
        for score in run.scores:
            if score.encoder == encoder:
                scores.append(attrs.evolve(score, encoder="encoder"))
        return attrs.evolve(
            run,
            cell=name,
            scores=tuple(scores),
            cost=None,
        )

    (cell_of_encoder,) = with_runs([attrs.evolve(cell, name=name)], renamed)
    return cell_of_encoder


def difference_table(summary: Summary) -> Table:
    """Return the comparisons with the baseline, one row per cell and score, with interval and p-values."""
    rows = []
    for row in summary.rows:
        for column, cell in zip(summary.columns, row.cells, strict=True):
            judged = cell.judged
            if judged is None or judged.p_value is None or judged.corrected is None:
                continue
            difference = Estimate(value=judged.difference, interval=judged.interval)
            p_value = probability(judged.p_value)
            corrected = chance(judged.corrected)
            headers = (row.name, column.heading)
            cells = (difference, p_value, corrected)
            rows.append(Row(headers, cells, cell=row.cell))
    columns = (
        Column("difference, 95 % interval", form="signed", digits=summary.digits),
        Column("p"),
        Column("p after Holm's correction"),
    )
    return Table("", (Header("cell"), Header("score")), columns, tuple(rows))


def scoring_remarks(data: StudyData) -> Iterator[str]:
    """Yield a sentence for each evaluator whose scores were made by different versions of its plugin."""
    plugins_of_evaluators: defaultdict[str, list[str]] = defaultdict(list)
    for run in data.runs:
        for score in run.scores:
            plugin = score.plugin or "a plugin that is not known"
            plugins = plugins_of_evaluators[score.evaluator]
            if plugin not in plugins:
                plugins.append(plugin)

    for evaluator, plugins in plugins_of_evaluators.items():
        if len(plugins) > 1:
            versions = " and ".join(plugins)
            yield f"{evaluator}: the scores are by {versions}."
