"""Audit of results: `audit_results` reads them, selects comparable scores and tests which models differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import attrs
from sentbed.errors import DataError, suggest

from sentbed_audit.benchmarks import BenchmarkTask, task_types
from sentbed_audit.benchmarks import benchmark as benchmark_named
from sentbed_audit.comparable_scores import ComparableScores, comparable_scores
from sentbed_audit.ranking_tests import Claims, claims_of
from sentbed_audit.read_results import Results, read_results


@attrs.frozen(eq=False)
class Audit:
    """The result of an audit: the scores read, the comparable scores, and what can be claimed about models."""

    name: str
    results: Results
    comparable: ComparableScores
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
    results = _restricted(results, "task", tasks)
    results = _restricted(results, "model", models)
    benchmark_tasks: Mapping[str, BenchmarkTask] = {}
    # A task that is named twice counts once.
    compared = list(dict.fromkeys(tasks))
    if benchmark is not None:
        benchmark_tasks = benchmark_named(benchmark)
        for task in compared:
            if task not in benchmark_tasks:
                raise DataError(
                    f"the benchmark `{benchmark}` has no task `{task}`."
                    f"{suggest(task, list(benchmark_tasks))} Or take `--benchmark` out"
                )
        compared = compared or list(benchmark_tasks)
        if not results.scores["task"].isin(compared).any():
            raise DataError(
                f"no score is of a task of the benchmark `{benchmark}`; name results of it, or take "
                "`--benchmark` out"
            )
    name = benchmark or ", ".join(Path(path).name for path in paths)
    comparable = comparable_scores(results, compared, benchmark_tasks, ignore_data)
    try:
        claims = claims_of(comparable.scores, task_types(benchmark_tasks))
    except ValueError as error:
        return Audit(name, results, comparable, None, str(error))

    return Audit(name, results, comparable, claims)


def _restricted(
    results: Results,
    column: str,
    names: Collection[str],
) -> Results:
    """Return the results whose `column` (`task` or `model`) has one of `names`; all if `names` is empty.

    Raises `DataError` if there is a name that no result has.
    """
    if not names:
        return results

    present = {getattr(row, column) for row in results.rows}
    for name in names:
        if name not in present:
            raise DataError(
                f"no score is of the {column} `{name}`.{suggest(name, sorted(present))}"
            )

    rows = [row for row in results.rows if getattr(row, column) in names]
    return attrs.evolve(results, rows=rows)
