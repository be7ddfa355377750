"""Audit of results: `audit_results` reads them, selects comparable scores and tests which models differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import attrs
import pandas
from sentbed.errors import DataError, suggest

from sentbed_audit.benchmarks import BenchmarkTask, benchmark_tasks
from sentbed_audit.comparable_scores import comparable_scores
from sentbed_audit.findings import Finding
from sentbed_audit.ranking_tests import Claims, claims_of
from sentbed_audit.read_results import read_results


@attrs.frozen(eq=False)
class Audit:
    """The result of an audit: the scores read, the comparable scores, and what can be claimed about models."""

    name: str
    scores: pandas.DataFrame
    """All scores that were read, with the columns `score_rows.COLUMNS`."""
    comparable: pandas.DataFrame
    """Scores that may be compared: a row for each model and revision, a column for each task."""
    findings: tuple[Finding, ...]
    """What is left out of the comparison."""
    claims: Claims | None
    problem: str = ""
    """Why nothing can be claimed, so that `claims` is None; empty otherwise."""


def audit_results(
    paths: Sequence[str | Path],
    benchmark: str | None = None,
    tasks: Collection[str] = (),
    models: Collection[str] = (),
    ignore_data: bool = False,
) -> Audit:
    """Read results and return their audit.

    If `benchmark` names a benchmark, its tasks, splits and subsets are compared. `tasks` and `models` are the
    names of the only tasks and models to compare; empty for all models, and the tasks that at least half of them
    have. With `ignore_data`, models are compared on a task even if their scores are on different revisions of its
    data.

    Raises:
        DataError: if a path or the benchmark does not exist, if there is no score in the paths, if there is
            none of a named task or model, or if the benchmark lacks a named task.
    """
    results = read_results(paths)
    scores = _restricted(results.scores, "task", tasks)
    scores = _restricted(scores, "model", models)
    # A task that is named twice counts once.
    compared = list(dict.fromkeys(tasks))
    known_tasks: Mapping[str, BenchmarkTask] = {}
    if benchmark is not None:
        known_tasks = benchmark_tasks(benchmark)
        for task in compared:
            if task not in known_tasks:
                raise DataError(
                    f"the benchmark `{benchmark}` has no task `{task}`."
                    f"{suggest(task, list(known_tasks))} Or take `--benchmark` out"
                )
        compared = compared or list(known_tasks)
        if not scores["task"].isin(compared).any():
            raise DataError(
                f"no score is of a task of the benchmark `{benchmark}`; name results of it, or take "
                "`--benchmark` out"
            )

    table, findings = comparable_scores(scores, compared, known_tasks, ignore_data)
    claims = None
    problem = ""
    try:
        claims = claims_of(table)
    except ValueError as error:
        problem = str(error)
    name = benchmark or ", ".join(Path(path).name for path in paths)
    all_findings = (*results.unreadable, *findings)
    return Audit(name, scores, table, all_findings, claims, problem)


def _restricted(
    scores: pandas.DataFrame,
    column: str,
    names: Collection[str],
) -> pandas.DataFrame:
    """Return the scores whose `column` (`task` or `model`) has one of `names`; all if `names` is empty.

    Raises `DataError` if there is a name that no score has.
    """
    if not names:
        return scores
    present = sorted(scores[column].unique())
    for name in names:
        if name not in present:
            raise DataError(
                f"no score is of the {column} `{name}`.{suggest(name, present)}"
            )
    return scores[scores[column].isin(names)]
