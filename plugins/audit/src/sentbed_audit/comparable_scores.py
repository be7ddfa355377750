"""Selection of comparable scores: one per model and task, all in the same metric, split and subsets.

The metric of a task is the metric that most models have. Its splits and subsets are those of the benchmark;
without a benchmark, they are those that most models have. For each score that is left out, there is a
`Finding`.

Each row of a frame is one score. Its `system` is a model or, if a model has several revisions, one revision of
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
    findings: tuple[Finding, ...]
    duplicates: tuple[tuple[str, ...], ...]
    """Groups of models that have equal scores on all tasks that they share."""


def comparable_scores(
    results: Results,
    tasks: Sequence[str] = (),
    benchmark: Mapping[str, BenchmarkTask] | None = None,
    ignore_data: bool = False,
) -> ComparableScores:
    """Return the scores that may be compared.

    `tasks` are the compared tasks; by default, they are those that at least half of the models have. `benchmark`
    has the splits and subsets of its tasks. With `ignore_data`, scores on other revisions of the data than most
    are compared, too.
    """
    findings = []
    for entry in results.unreadable:
        file = entry.file
        findings.append(Finding("unreadable", "left out", file, entry.reason, (file,)))

    frame = results.scores.copy()
    frame["system"] = _system_names(frame)
    findings += _model_revisions(frame)
    if tasks:
        frame = frame[frame["task"].isin(tasks)]
    findings += _formats(frame)
    frame = _on_one_condition(frame, benchmark or {}, ignore_data, findings)

    table = _mean_scores(frame, findings)
    compared_tasks = list(tasks)
    if not tasks:
        compared_tasks = _common_tasks(table, findings)
    scores = table.pivot(
        index="system",
        columns="task",
        values="score",
    )
    scores = scores.reindex(columns=compared_tasks)

    findings += _software(frame, compared_tasks)
    findings += _missing_tasks(scores)
    duplicates = _duplicates(scores)
    for group in duplicates:
        detail = f"has the scores of {first_names(group[1:])}"
        findings.append(Finding("duplicate", "mind", group[0], detail))

    return ComparableScores(scores, tuple(findings), duplicates)


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
        detail = f"{len(files)} files from before MTEB 1.11"
        yield Finding("format", "mind", str(system), detail, files)


def _on_one_condition(
    frame: pandas.DataFrame,
    benchmark: Mapping[str, BenchmarkTask],
    ignore_data: bool,
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the rows with the compared metric, split, data and subsets, of models that have all subsets.

    The findings on other rows are added to `findings`.
    """
    is_finite = np.isfinite(frame["score"])
    findings += _left_out("not finite", frame[~is_finite], "is no finite number")
    # The first part is empty, since `concat` needs at least one part.
    parts = [frame[:0]]
    for task, rows in frame[is_finite].groupby("task", sort=False):
        entry = benchmark.get(str(task))
        parts.append(_compared_rows(rows, entry, ignore_data, findings))

    return pandas.concat(parts)


def _compared_rows(
    rows: pandas.DataFrame,
    task: BenchmarkTask | None,
    ignore_data: bool,
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

    if not ignore_data:
        rows = _on_most_common_data(rows, findings)

    if task is None:
        subsets = _common_subsets(rows)
    else:
        subsets = list(task.subsets)
    return _with_all_subsets(rows[rows["subset"].isin(subsets)], subsets, findings)


def _on_most_common_data(
    rows: pandas.DataFrame, findings: list[Finding]
) -> pandas.DataFrame:
    """Return the rows of one task on the revision of the data that most models have.

    Each split and subset may have data of its own. A model whose scores of several subsets are left out for the
    same reason has one finding.
    """
    parts = [rows[:0]]
    others: list[Finding] = []
    for _, part in rows.groupby(["split", "subset"]):
        revision = _most_common(part, "data_revision")
        others += _without(part, "data_revision", [revision])
        parts.append(part[part["data_revision"] == revision])
    findings += dict.fromkeys(others)
    return pandas.concat(parts)


def _most_common(rows: pandas.DataFrame, column: str) -> str:
    """Return the value of a column that most models have; of equally common ones, `test` or else the first."""
    counts = rows.groupby(column)["system"].nunique()
    most_common = sorted(counts[counts == counts.max()].index)
    if "test" in most_common:
        return "test"
    return str(most_common[0])


def _without(
    rows: pandas.DataFrame,
    column: Literal["metric", "split", "data_revision"],
    values: list[str],
) -> Iterator[Finding]:
    """Yield a finding for each model that has none of these values in a column."""
    kinds: dict[str, Kind] = {
        "metric": "metric",
        "split": "split",
        "data_revision": "data revision",
    }
    kind = kinds[column]
    has_value = rows[rows[column].isin(values)]["system"].unique()
    others = rows[~rows["system"].isin(has_value)]
    for (system, task), part in others.groupby(KEY):
        present = sorted(part[column].unique())
        compared = values
        if kind == "data revision":
            present = [value[:12] or "unknown" for value in present]
            compared = [value[:12] or "unknown" for value in compared]
        detail = (
            f"{task}: has the {kind} {first_names(present)}, "
            f"compared is {first_names(compared)}"
        )
        yield Finding(kind, "left out", system, detail, tuple(part["file"].unique()))


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


def _common_tasks(table: pandas.DataFrame, findings: list[Finding]) -> list[str]:
    """Return the tasks that at least half of the models have; add a finding for each other task."""
    models = table["system"].nunique()
    common = []
    for task, count in table.groupby("task")["system"].nunique().items():
        if count >= models / 2:
            common.append(str(task))
        else:
            detail = f"{count} of {models} models have it"
            findings.append(Finding("rare task", "left out", str(task), detail))
    return common


def _software(frame: pandas.DataFrame, tasks: list[str]) -> Iterator[Finding]:
    """Yield a finding for each task whose scores come from several versions of the software."""
    for task, rows in frame[frame["task"].isin(tasks)].groupby("task"):
        versions = rows["software"].replace("", "unknown").value_counts()
        if len(versions) > 1:
            names = [f"{version} ({count})" for version, count in versions.items()]
            detail = f"{len(versions)} versions: {first_names(names)}"
            yield Finding("software", "mind", str(task), detail)


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
