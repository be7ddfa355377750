"""Selection of comparable scores: one per model and task, all in the same metric, split and subsets.

The metric of a task is the metric that most models have. Its splits and subsets are those of the benchmark;
without a benchmark, they are those that most models have. For each score that is left out, there is a
`Finding`.

Each row of a frame is one score. Its `system` is a model or, if a model has several revisions, one revision of
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import attrs
import numpy as np
import pandas
from sentbed_report.formatting import first_names

from sentbed_audit.benchmarks import BenchmarkTask
from sentbed_audit.findings import Finding, Kind
from sentbed_audit.read_results import Results

COMMON = 0.95
"""Share of models. A subset is compared if the number of models that have it is at least this share of the number
that have the most common subset of the task."""

OTHER_SCALE = 20.0
"""Factor between a score and the median of its task, in absolute values, from which it is on another scale."""

FEWEST_SHARED = 5
"""Minimum number of tasks that two models must share to count as duplicates."""

KEY = ["system", "task"]


@attrs.frozen(eq=False)
class ComparableScores:
    """Scores that may be compared, with one row per model and revision and one column per task."""

    scores: pandas.DataFrame
    """Means over subsets and seeds; NaN where there is no score that may be compared."""
    revisions: pandas.DataFrame
    """Revision of the data of each score, in a table of the same shape; empty where it is unknown."""
    findings: tuple[Finding, ...]
    duplicates: tuple[tuple[str, ...], ...]
    """Groups of models that have equal scores on all tasks that they share."""


def comparable_scores(
    results: Results, tasks: Mapping[str, BenchmarkTask] | None = None
) -> ComparableScores:
    """Return the scores that may be compared.

    `tasks` are the tasks of the benchmark. None stands for a comparison without a benchmark, over the tasks that
    at least half of the models have.
    """
    findings = []
    for entry in results.unreadable:
        file = entry.file
        findings.append(Finding("unreadable", "left out", file, entry.reason, (file,)))

    frame = results.scores.copy()
    frame["system"] = _system_names(frame)
    findings += _model_revisions(frame)
    if tasks is not None:
        frame = frame[frame["task"].isin(tasks)]
    findings += _formats(frame)
    frame = _on_one_condition(frame, tasks, findings)

    table = _mean_scores(frame, findings)
    if tasks is None:
        compared_tasks = _common_tasks(table)
    else:
        compared_tasks = list(tasks)
    scores = table.pivot(
        index="system",
        columns="task",
        values="score",
    )
    scores = scores.reindex(columns=compared_tasks)
    revisions = table.pivot(
        index="system",
        columns="task",
        values="data_revision",
    )
    revisions = revisions.reindex(columns=compared_tasks).fillna("")

    findings += _software(frame, compared_tasks)
    findings += _data_revisions(table, compared_tasks)
    findings += _missing_tasks(scores)
    duplicates = _duplicates(scores)
    for group in duplicates:
        detail = f"has the scores of {first_names(group[1:])}"
        findings.append(Finding("duplicate", "mind", group[0], detail))

    return ComparableScores(scores, revisions, tuple(findings), duplicates)


def _system_names(frame: pandas.DataFrame) -> pandas.Series:
    """Return the system of each row: the name of the model, with the revision if the model has several.

    A revision is cut to 12 characters, unless another revision of the model begins with the same ones.
    """
    revisions = frame["revision"].replace("", "unknown")
    short = revisions.str.slice(0, 12)
    of_model = revisions.groupby(frame["model"])
    alike = revisions.groupby([frame["model"], short])
    shown = short.where(alike.transform("nunique") == 1, revisions)
    is_only_revision = of_model.transform("nunique") == 1
    return frame["model"].where(is_only_revision, frame["model"] + "@" + shown)


def _model_revisions(frame: pandas.DataFrame) -> Iterator[Finding]:
    """Yield a finding for each model with several revisions."""
    for model, rows in frame.groupby("model"):
        revisions = sorted(rows["revision"].unique())
        if len(revisions) > 1:
            names = [revision or "unknown" for revision in revisions]
            detail = f"{len(revisions)} revisions: {first_names(names)}"
            yield Finding("model revision", "mind", str(model), detail)


def _formats(frame: pandas.DataFrame) -> Iterator[Finding]:
    """Yield a finding for each model with files from before MTEB 1.11."""
    old = frame[frame["layout"] == "mteb 1.0"]
    for system, rows in old.groupby("system"):
        files = tuple(rows["file"].unique())
        yield Finding(
            "format",
            "mind",
            str(system),
            f"{len(files)} files from before MTEB 1.11",
            files,
        )


def _on_one_condition(
    frame: pandas.DataFrame,
    tasks: Mapping[str, BenchmarkTask] | None,
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the rows with the compared metric, split and subsets, of models that have all compared subsets.

    The findings on other rows are added to `findings`.
    """
    is_finite = np.isfinite(frame["score"])
    findings += _left_out("not finite", frame[~is_finite], "is no finite number")
    # The first part is empty, since `concat` needs at least one part.
    parts = [frame[:0]]
    for task, rows in frame[is_finite].groupby("task", sort=False):
        benchmark_task = None
        if tasks is not None:
            benchmark_task = tasks[str(task)]
        parts.append(_compared_rows(rows, benchmark_task, findings))

    return pandas.concat(parts)


def _compared_rows(
    rows: pandas.DataFrame,
    task: BenchmarkTask | None,
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the compared rows of one task. `task` is its entry in the benchmark; None without a benchmark."""
    metric = _most_common(rows, "metric")
    findings += _without(rows, "metric", [metric])
    rows = rows[rows["metric"] == metric]

    if task is None:
        splits = [_most_common(rows, "split")]
    else:
        splits = list(task.splits)
    findings += _without(rows, "split", splits)
    rows = rows[rows["split"].isin(splits)]

    if task is None:
        subsets = _common_subsets(rows)
    else:
        subsets = list(task.subsets)
    return _with_all_subsets(rows[rows["subset"].isin(subsets)], subsets, findings)


def _most_common(rows: pandas.DataFrame, column: str) -> str:
    """Return the value of a column that most models have; of equally common ones, `test` or else the first."""
    counts = rows.groupby(column)["system"].nunique()
    most_common = sorted(counts[counts == counts.max()].index)
    if "test" in most_common:
        return "test"
    return str(most_common[0])


def _without(
    rows: pandas.DataFrame,
    column: Literal["metric", "split"],
    values: list[str],
) -> Iterator[Finding]:
    """Yield a finding for each model that has none of these values in a column."""
    has_value = rows[rows[column].isin(values)]["system"].unique()
    others = rows[~rows["system"].isin(has_value)]
    for (system, task), part in others.groupby(KEY):
        present = first_names(sorted(part[column].unique()))
        detail = (
            f"{task}: has the {column} {present}, compared is {first_names(values)}"
        )
        yield Finding(column, "left out", system, detail, tuple(part["file"].unique()))


def _common_subsets(rows: pandas.DataFrame) -> list[str]:
    """Return the subsets of a task that nearly as many models have as its most common subset; see `COMMON`."""
    counts = rows.groupby("subset")["system"].nunique()
    return sorted(counts[counts >= COMMON * counts.max()].index)


def _with_all_subsets(
    rows: pandas.DataFrame,
    subsets: list[str],
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the rows of models that have every subset; add a finding for each other model."""
    counts = rows.groupby("system")["subset"].nunique()
    incomplete = counts[counts < len(subsets)].index
    for (system, task), part in rows[rows["system"].isin(incomplete)].groupby(KEY):
        missing = sorted(set(subsets) - set(part["subset"]))
        detail = f"{task}: lacks the subset {first_names(missing)}"
        files = tuple(part["file"].unique())
        findings.append(Finding("subset", "left out", system, detail, files))
    return rows[~rows["system"].isin(incomplete)]


def _mean_scores(frame: pandas.DataFrame, findings: list[Finding]) -> pandas.DataFrame:
    """Return one row per model and task, with the mean over subsets and seeds.

    Two kinds of scores are left out, and reported in `findings`: those that contradict each other, and those on
    another scale than the other scores of their task.
    """
    # A file may be read twice, by overlapping paths.
    is_repeated = frame.duplicated(
        [*KEY, "split", "subset", "seed", "score", "data_revision", "file"]
    )
    single = _one_score_each(frame[~is_repeated], findings)
    table = single.groupby(KEY, as_index=False).agg(
        score=("score", "mean"),
        data_revision=("data_revision", "first"),
        file=("file", "first"),
    )
    is_other = _is_on_another_scale(table)
    findings += _left_out(
        "scale", table[is_other], "is on another scale than the others of its task"
    )
    return table[~is_other]


def _is_on_another_scale(table: pandas.DataFrame) -> pandas.Series:
    """Return which scores are on another scale than the others of their task; see `OTHER_SCALE`.

    Among percentages, a score of at most 1 may be right, so it counts only if its model has no larger score.
    """
    sizes = table["score"].abs()
    medians = sizes.groupby(table["task"]).transform("median")
    largest_of_model = sizes.groupby(table["system"]).transform("max")
    is_percentage = (medians > 0) & (sizes > OTHER_SCALE * medians)
    is_fraction = (
        (medians > 1) & (largest_of_model <= 1) & (OTHER_SCALE * sizes < medians)
    )
    return is_percentage | (is_fraction & (sizes > 0))


def _one_score_each(
    frame: pandas.DataFrame, findings: list[Finding]
) -> pandas.DataFrame:
    """Leave out the rows of each model and task whose scores contradict each other; add a finding on it.

    Scores of one format contradict each other if they differ for the same split, subset and seed.
    """
    columns = [*KEY, "split", "subset", "seed", "layout"]
    groups = frame.groupby(columns, dropna=False)["score"]
    spread = groups.transform("max") - groups.transform("min")
    contradicted = frame[spread > 1e-9]
    for (system, task), part in contradicted.groupby(KEY):
        scores = [f"{score:.4f}" for score in part["score"]]
        detail = f"{task}: {first_names(scores)}"
        files = tuple(part["file"].unique())
        findings.append(Finding("two scores", "left out", system, detail, files))

    places = pandas.MultiIndex.from_frame(contradicted[KEY])
    return frame[~pandas.MultiIndex.from_frame(frame[KEY]).isin(places)]


def _left_out(
    kind: Kind,
    rows: pandas.DataFrame,
    reason: str,
) -> Iterator[Finding]:
    """Yield a finding for each row, which says that its score is left out and for what `reason`."""
    for row in rows.itertuples():
        detail = f"{row.task}: {row.score:.6g} {reason}"
        yield Finding(kind, "left out", row.system, detail, (row.file,))


def _common_tasks(table: pandas.DataFrame) -> list[str]:
    """Return the tasks that at least half of the models have."""
    counts = table.groupby("task")["system"].nunique()
    return sorted(counts[counts >= table["system"].nunique() / 2].index)


def _software(frame: pandas.DataFrame, tasks: list[str]) -> Iterator[Finding]:
    """Yield a finding for each task whose scores come from several versions of the software."""
    for task, _, versions in _mixed(frame, tasks, "software"):
        names = [f"{version} ({count})" for version, count in versions.items()]
        detail = f"{len(versions)} versions: {first_names(names)}"
        yield Finding("software", "mind", task, detail)


def _data_revisions(table: pandas.DataFrame, tasks: list[str]) -> Iterator[Finding]:
    """Yield a finding for each task whose scores are on several revisions of the data."""
    for task, rows, revisions in _mixed(table, tasks, "data_revision"):
        names = [f"{revision[:12]} ({count})" for revision, count in revisions.items()]
        others = rows[rows["data_revision"] != revisions.index[0]]
        detail = f"{len(revisions)} revisions of the data: {first_names(names)}"
        yield Finding(
            "data revision", "not paired", task, detail, tuple(others["file"])
        )


def _mixed(
    frame: pandas.DataFrame,
    tasks: list[str],
    column: str,
) -> Iterator[tuple[str, pandas.DataFrame, pandas.Series]]:
    """Yield each task whose scores differ in a column: its rows, and the number of rows with each value.

    The most frequent value comes first. An empty value is named `unknown`.
    """
    of_tasks = frame[frame["task"].isin(tasks)].replace({column: {"": "unknown"}})
    for task, rows in of_tasks.groupby("task"):
        counts = rows[column].value_counts()
        if len(counts) > 1:
            yield str(task), rows, counts


def _missing_tasks(scores: pandas.DataFrame) -> Iterator[Finding]:
    """Yield a finding for each model that lacks a score of a compared task."""
    for system, row in scores.iterrows():
        missing = list(row.index[row.isna()])
        if missing:
            detail = f"{len(missing)} of {len(row)} tasks: {first_names(missing)}"
            yield Finding("missing tasks", "left out", str(system), detail)


def _duplicates(scores: pandas.DataFrame) -> tuple[tuple[str, ...], ...]:
    """Return groups of models that share at least five tasks, and have equal scores on all shared tasks."""
    values = scores.to_numpy()
    names = list(map(str, scores.index))
    grouped: set[int] = set()
    groups = []
    for first in range(len(names)):
        if first in grouped:
            continue
        differences = np.abs(values - values[first])
        shared_tasks = np.isfinite(differences).sum(axis=1)
        is_same = (shared_tasks >= FEWEST_SHARED) & ~(differences > 1e-9).any(axis=1)
        group = [first]
        for second in np.flatnonzero(is_same).tolist():
            if second > first and second not in grouped:
                group.append(second)
        grouped.update(group)
        if len(group) > 1:
            groups.append(tuple(names[row] for row in group))

    return tuple(groups)
