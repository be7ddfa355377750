"""Selection of comparable scores: one per model and task, all in the same metric, split and subsets.

The metric of a task is the metric that most models have. Its splits and subsets are those of the benchmark;
without a benchmark, they are those that most models have. For each score that is left out, there is a
`Finding`.

Each row of a frame is one score. Its `system` is a model or, if a model has several revisions, one revision of
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import pandas
from sentbed_report.formatting import first_names

from sentbed_audit.benchmarks import BenchmarkTask
from sentbed_audit.findings import Finding, Kind

COMMON = 0.95
"""Share of models. A subset is compared if the number of models that have it is at least this share of the number
that have the most common subset of the task."""

OTHER_SCALE = 20.0
"""Factor between a score and the median of its task, in absolute values, from which it is on another scale."""

KEY = ["system", "task"]


def comparable_scores(
    scores: pandas.DataFrame,
    tasks: Sequence[str] = (),
    benchmark: Mapping[str, BenchmarkTask] | None = None,
    ignore_data: bool = False,
) -> tuple[pandas.DataFrame, list[Finding]]:
    """Return the scores that may be compared, and what is left out of them.

    The result has a row for each model and revision and a column for each task, with the mean over subsets and
    seeds; NaN where there is no score that may be compared.

    Args:
        scores: all scores, with the columns `score_rows.COLUMNS`.
        tasks: compared tasks; by default, those that at least half of the models have.
        benchmark: splits and subsets of the tasks of a benchmark.
        ignore_data: whether scores on other revisions of the data than most are compared, too.
    """
    findings: list[Finding] = []
    frame = scores.copy()
    frame["system"] = _systems(frame)
    if tasks:
        frame = frame[frame["task"].isin(tasks)]
    is_finite = np.isfinite(frame["score"])
    findings += _findings(
        "not finite", frame[~is_finite], "a score is no finite number"
    )
    # The first part is empty, since `concat` needs at least one part.
    parts = [frame[:0]]
    for name, rows in frame[is_finite].groupby("task", sort=False):
        task = (benchmark or {}).get(str(name))
        parts.append(_compared_rows(rows, task, ignore_data, findings))

    means = _mean_scores(pandas.concat(parts), findings)
    compared_tasks = list(tasks)
    if not tasks:
        compared_tasks = _common_tasks(means, findings)
    table = means.pivot(index="system", columns="task", values="score")
    table = table.reindex(columns=compared_tasks)
    for system, row in table.iterrows():
        missing = list(row.index[row.isna()])
        if missing:
            detail = f"{len(missing)} of {len(row)} tasks: {first_names(missing)}"
            findings.append(Finding("missing tasks", str(system), detail))
    return table, findings


def _systems(frame: pandas.DataFrame) -> pandas.Series:
    """Return the system of each row: the name of the model, with the revision if the model has several."""
    revisions = frame["revision"].replace("", "unknown")
    numbers_of_revisions = revisions.groupby(frame["model"]).transform("nunique")
    with_revision = frame["model"] + "@" + revisions
    return frame["model"].where(numbers_of_revisions == 1, with_revision)


def _findings(kind: Kind, rows: pandas.DataFrame, reason: str) -> Iterator[Finding]:
    """Yield a finding for each model and task with rows that are left out, and for what `reason`."""
    for (system, task), part in rows.groupby(KEY):
        files = tuple(part["file"].unique())
        yield Finding(kind, system, f"{task}: {reason}", files)


def _compared_rows(
    rows: pandas.DataFrame,
    task: BenchmarkTask | None,
    ignore_data: bool,
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the compared rows of one task. `task` is its entry in the benchmark; None without a benchmark."""
    rows = _with_values(
        "metric", rows, "metric", [_most_common(rows, "metric")], findings
    )
    splits = [_most_common(rows, "split")]
    if task is not None:
        splits = list(task.splits)
    rows = _with_values("split", rows, "split", splits, findings)

    if not ignore_data:
        # Each split and subset may have data of its own.
        parts = [rows[:0]]
        others: list[Finding] = []
        for _, part in rows.groupby(["split", "subset"]):
            revision = _most_common(part, "data_revision")
            parts.append(
                _with_values("data revision", part, "data_revision", [revision], others)
            )
        # Subsets that are left out for the same reason have one finding.
        findings += dict.fromkeys(others)
        rows = pandas.concat(parts)

    counts = rows.groupby("subset")["system"].nunique()
    subsets = sorted(counts[counts >= COMMON * counts.max()].index)
    if task is not None:
        subsets = list(task.subsets)
    rows = rows[rows["subset"].isin(subsets)]
    is_complete = rows.groupby("system")["subset"].transform("nunique") == len(subsets)
    findings += _findings(
        "subset",
        rows[~is_complete],
        f"has not all of the subsets {first_names(subsets)}",
    )
    return rows[is_complete]


def _most_common(rows: pandas.DataFrame, column: str) -> str:
    """Return the value of a column that most models have; of equally common ones, `test` or else the first."""
    counts = rows.groupby(column)["system"].nunique()
    most_common = sorted(counts[counts == counts.max()].index)
    if "test" in most_common:
        return "test"
    return str(most_common[0])


def _with_values(
    kind: Kind,
    rows: pandas.DataFrame,
    column: str,
    values: Collection[str],
    findings: list[Finding],
) -> pandas.DataFrame:
    """Return the rows with one of these values in a column; add a finding for each model without any of them."""
    is_compared = rows[column].isin(values)
    has_value = rows["system"].isin(rows[is_compared]["system"])
    compared = first_names([value or "unknown" for value in values])
    for (system, task), part in rows[~has_value].groupby(KEY):
        names = [value or "unknown" for value in sorted(part[column].unique())]
        detail = f"{task}: has the {kind} {first_names(names)}, compared is {compared}"
        findings.append(Finding(kind, system, detail, tuple(part["file"].unique())))
    return rows[is_compared]


def _mean_scores(frame: pandas.DataFrame, findings: list[Finding]) -> pandas.DataFrame:
    """Return one row per model and task, with the mean over subsets and seeds.

    Two kinds of scores are left out, and reported in `findings`: those that differ for the same split, subset and
    seed, and those on another scale than the other scores of their task.
    """
    condition = [*KEY, "split", "subset", "seed"]
    # A file may be read twice, by overlapping paths.
    frame = frame.drop_duplicates([*condition, "score", "data_revision", "file"])
    of_condition = frame.groupby(condition)["score"]
    spread = of_condition.transform("max") - of_condition.transform("min")
    contradicted = frame.assign(spread=spread).groupby(KEY)["spread"].transform("max")
    is_contradicted = contradicted > 1e-9
    findings += _findings(
        "two scores", frame[is_contradicted], "has different scores of the same seed"
    )
    means = (
        frame[~is_contradicted]
        .groupby(KEY, as_index=False)
        .agg(score=("score", "mean"), file=("file", "first"))
    )

    sizes = means["score"].abs()
    medians = sizes.groupby(means["task"]).transform("median")
    largest_of_model = sizes.groupby(means["system"]).transform("max")
    is_percentage = (medians > 0) & (sizes > OTHER_SCALE * medians)
    # Among percentages, a score of at most 1 may be right, unless its model has no larger score.
    is_fraction = (sizes > 0) & (medians > 1) & (largest_of_model <= 1)
    is_fraction &= OTHER_SCALE * sizes < medians
    is_other = is_percentage | is_fraction
    findings += _findings(
        "scale", means[is_other], "its score is on another scale than the others"
    )
    return means[~is_other]


def _common_tasks(means: pandas.DataFrame, findings: list[Finding]) -> list[str]:
    """Return the tasks that at least half of the models have; add a finding for each other task."""
    models = means["system"].nunique()
    common = []
    for task, count in means.groupby("task")["system"].nunique().items():
        if count >= models / 2:
            common.append(str(task))
        else:
            detail = f"{count} of {models} models have it"
            findings.append(Finding("rare task", str(task), detail))
    return common
