"""All scores of a study: as a sequence of `Measurement`s, and as a tidy pandas data frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import START, Score

from sentbed_report.data_splits import is_development
from sentbed_report.run_cost import cost_scores
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

if TYPE_CHECKING:
    import pandas


@attrs.frozen(eq=False)
class Measurement:
    """One score of an encoder in a run of a cell."""

    cell: CellInfo
    run: CellRun
    score: Score


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
    """Yield every score of the finished runs. In a run, each encoder's scores are followed by the costs."""
    for cell in data.cells:
        for run in cell.runs:
            for encoder in encoder_order(score.encoder for score in run.scores):
                for score in run.scores:
                    if score.encoder == encoder:
                        yield Measurement(cell, run, score)
                for score in cost_scores(run.cost, encoder):
                    yield Measurement(cell, run, score)


def study_frame(data: StudyData) -> pandas.DataFrame:
    """Return every score of the finished runs, one per row, including scores before training (`NAME@start`).

    Columns: `cell`, one column per axis (an ordered category), `prompt` (in a study with `prompts`), `seed`,
    `encoder`, `evaluator`, `protocol`, `task`, `metric`, `value`, `direction`, `degenerate`, `split` (`test` or
    `development`), `axis` (`Score.axis`, which is `cost` for a cost) and `score`, which is the `Score` with its
    items. The column of an axis is named by `axis_column`.

    Rows are in the order of cells, prompts and seeds. The rows of a run are in the order of scoring; its costs
    come last.
    """
    import pandas

    rows = []
    for cell in data.cells:
        labels = {axis_column(axis): label for axis, label in cell.labels.items()}
        for run in cell.runs:
            scores = list(run.scores)
            for encoder in dict.fromkeys(score.encoder for score in run.scores):
                scores += cost_scores(run.cost, encoder)
            for score in scores:
                # The prompt comes before the labels: in a study without prompts, an axis may be called `prompt`.
                place = {
                    "cell": cell.name,
                    "prompt": run.prompt,
                    **labels,
                    "seed": run.seed,
                }
                rows.append({**place, **_number(score)})

    columns = ["cell"]
    for axis in data.axes:
        columns.append(axis_column(axis.name))
    if data.prompts:
        columns.append("prompt")
    columns += NUMBER_COLUMNS
    return with_axis_categories(pandas.DataFrame(rows, columns=columns), data)


def _number(score: Score) -> dict[str, Any]:
    split = "test"
    if is_development(score):
        split = "development"
    return {
        "encoder": score.encoder,
        "evaluator": score.evaluator,
        "protocol": score.protocol_name,
        "task": score.task,
        "metric": score.metric,
        "value": score.value,
        "direction": score.direction,
        "degenerate": score.degenerate,
        "split": split,
        "axis": score.axis,
        "score": score,
    }


NUMBER_COLUMNS = (
    "seed",
    "encoder",
    "evaluator",
    "protocol",
    "task",
    "metric",
    "value",
    "direction",
    "degenerate",
    "split",
    "axis",
    "score",
)
"""Columns of a score, which come after the columns of its cell."""


def with_axis_categories(frame: pandas.DataFrame, data: StudyData) -> pandas.DataFrame:
    """Return a frame in which the columns of axes are categories, ordered as in the recipe."""
    import pandas

    for axis in data.axes:
        column = axis_column(axis.name)
        frame[column] = pandas.Categorical(
            frame[column], categories=axis.labels, ordered=True
        )
    return frame
