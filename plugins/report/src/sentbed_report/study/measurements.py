"""All scores of a study: as a sequence of `Measurement`s, and as a pandas data frame with a row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import START, Score

from sentbed_report.data_splits import is_development
from sentbed_report.score_protocols import evaluation_protocol, protocol_hash
from sentbed_report.statistics.cell_scores import Run
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData
from sentbed_report.study.summary_row import RowKey

if TYPE_CHECKING:
    import pandas

_NUMBER_COLUMNS = (
    "seed",
    "encoder",
    "evaluator",
    "protocol",
    "protocol_hash",
    "split",
    "task",
    "metric",
    "value",
    "direction",
    "degenerate",
    "axis",
    "score",
)
"""Columns of `study_frame` after those of the cell."""


@attrs.frozen(eq=False)
class Measurement:
    """One score of an encoder in a run of a cell."""

    cell: CellInfo
    run: CellRun
    score: Score

    @property
    def row(self) -> RowKey:
        """Row of the tables to which the score belongs."""
        return self.cell.name, self.score.encoder

    @property
    def replicate(self) -> Run:
        """Seed and prompt of the run."""
        return self.run.seed, self.run.prompt


def encoder_order(encoders: Iterable[str]) -> tuple[str, ...]:
    """Return each encoder once, in the order of appearance, with `NAME@start` right before `NAME`."""
    names = list(dict.fromkeys(encoders))
    ordered = []
    for base in dict.fromkeys(name.removesuffix(START) for name in names):
        for name in (base + START, base):
            if name in names:
                ordered.append(name)
    return tuple(ordered)


def measurements(data: StudyData) -> Iterator[Measurement]:
    """Yield every score of the finished runs, encoder by encoder."""
    for cell in data.cells:
        for run in cell.runs:
            for encoder in encoder_order(score.encoder for score in run.scores):
                for score in run.scores:
                    if score.encoder == encoder:
                        yield Measurement(cell, run, score)


def study_frame(data: StudyData) -> pandas.DataFrame:
    """Return every score of the finished runs, one per row, in the order of `measurements`.

    Columns: `cell`, one column per axis (an ordered category), `prompt` (in a study with `prompts`), `seed`,
    `encoder` (`NAME@start` before training), `evaluator`, `protocol`, `protocol_hash` (of the evaluation's
    protocol; scores with one hash are comparable), `split` (`test` or `development`), `task`, `metric`, `value`,
    `direction`, `degenerate` (why the score says nothing about the encoder; empty if it does), `axis`
    (`Score.axis`, which is `cost` for a cost) and `score`, which is the `Score` with its items. The column of an
    axis is named by `axis_column`.
    """
    import pandas

    rows = list(map(_row, measurements(data)))
    axes = {axis_column(axis.name): axis.labels for axis in data.axes}
    prompt = ["prompt"] if data.prompts else []
    columns = ["cell", *axes, *prompt, *_NUMBER_COLUMNS]
    frame = pandas.DataFrame(rows, columns=columns)
    for column, labels in axes.items():
        frame[column] = pandas.Categorical(frame[column], labels, ordered=True)
    return frame


def _row(measurement: Measurement) -> dict[str, Any]:
    score = measurement.score
    split = "development" if is_development(score) else "test"
    # The prompt comes before the labels: in a study without prompts, an axis may be called `prompt`.
    row: dict[str, Any] = {
        "cell": measurement.cell.name,
        "prompt": measurement.run.prompt,
    }
    for axis, label in measurement.cell.labels.items():
        row[axis_column(axis)] = label
    row |= {
        "seed": measurement.run.seed,
        "encoder": score.encoder,
        "evaluator": score.evaluator,
        "protocol": score.protocol_name,
        "protocol_hash": protocol_hash(evaluation_protocol(score)),
        "split": split,
    }
    return row | {
        "task": score.task,
        "metric": score.metric,
        "value": score.value,
        "direction": score.direction,
        "degenerate": score.degenerate,
        "axis": score.axis,
        "score": score,
    }
