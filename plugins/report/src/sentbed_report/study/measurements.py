"""All scores of a study in one sequence: as `Measurement`s, and as a tidy pandas data frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
from sentbed.protocols import Score

from sentbed_report.data_splits import is_development
from sentbed_report.run_cost import cost_scores
from sentbed_report.score_planes import encoder_order
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.study_data import CellInfo, CellRun, StudyData

if TYPE_CHECKING:
    import pandas


@attrs.frozen(eq=False)
class Measurement:
    """One score of one encoder in one run of a cell, with its items."""

    cell: CellInfo
    run: CellRun
    score: Score


def measurements(data: StudyData) -> Iterator[Measurement]:
    """Yield every score of the finished runs, by encoder; the costs of a run (`run-seconds` ...) come last."""
    for cell in data.cells:
        for run in cell.runs:
            for encoder in encoder_order(score.encoder for score in run.scores):
                for score in run.scores:
                    if score.encoder == encoder:
                        yield Measurement(cell, run, score)
                for score in cost_scores(run.cost, encoder):
                    yield Measurement(cell, run, score)


def study_frame(data: StudyData) -> pandas.DataFrame:
    """Return every score of the finished runs, one per row, including those before training (`NAME@start`).

    Columns: `cell`, one column per axis, with the labels as ordered categories (named `axis NAME` if tables of
    studies have another column of that name), `prompt` (in a study with `prompts`), `seed`, `encoder`,
    `evaluator`, `protocol`, `task`, `metric`, `value`, `direction`, `degenerate`, `split` (`test` or
    `development`), `axis` (`cost` for a cost) and `score`, the `Score` with its items. Rows are in the order of
    cells, prompts and seeds; within a run, in the order of scoring, with the costs of the run last.
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
                # Before the labels, as an axis may be called `prompt` in a study without `prompts`.
                place = {
                    "cell": cell.name,
                    "prompt": run.prompt,
                    **labels,
                    "seed": run.seed,
                }
                rows.append({**place, **_number(score)})
    axes = [axis_column(axis.name) for axis in data.axes]
    prompt = ["prompt"] if data.prompts else []
    columns = ["cell", *axes, *prompt, *NUMBER_COLUMNS]
    return with_axis_categories(pandas.DataFrame(rows, columns=columns), data)


def _number(score: Score) -> dict[str, Any]:
    return {
        "encoder": score.encoder,
        "evaluator": score.evaluator,
        "protocol": score.protocol_name,
        "task": score.task,
        "metric": score.metric,
        "value": score.value,
        "direction": score.direction,
        "degenerate": score.degenerate,
        "split": "development" if is_development(score) else "test",
        "axis": score.axis,
        "score": score,
    }


NUMBER_COLUMNS = (
    *(
        "seed",
        "encoder",
        "evaluator",
        "protocol",
        "task",
        "metric",
        "value",
        "direction",
        "degenerate",
    ),
    *("split", "axis", "score"),
)
"""Columns of a score, after those of its cell."""


def with_axis_categories(frame: pandas.DataFrame, data: StudyData) -> pandas.DataFrame:
    """Return a frame whose columns of axes are ordered categories, in the order of the recipe."""
    import pandas

    for axis in data.axes:
        column = axis_column(axis.name)
        frame[column] = pandas.Categorical(
            frame[column], categories=axis.labels, ordered=True
        )
    return frame
