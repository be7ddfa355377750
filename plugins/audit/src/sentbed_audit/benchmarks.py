"""The tasks of MTEB's benchmarks, with their splits, subsets and types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

import attrs
from sentbed.errors import DataError, listed, suggest


@attrs.frozen
class BenchmarkTask:
    """A task of a benchmark."""

    type: str
    """MTEB's type of the task, such as `Retrieval`."""
    splits: tuple[str, ...]
    subsets: tuple[str, ...]


@cache
def benchmarks() -> Mapping[str, Mapping[str, BenchmarkTask]]:
    """Return the tasks of each benchmark, by the names of benchmark and task, as MTEB 2.26 defines them."""
    file = resources.files("sentbed_audit").joinpath("benchmarks.json")
    tables = {}
    for name, tasks in json.loads(file.read_text("utf-8")).items():
        table = {}
        for task in tasks:
            splits, subsets = tuple(task["splits"]), tuple(task["subsets"])
            table[task["task"]] = BenchmarkTask(task["type"], splits, subsets)
        tables[name] = table
    return tables


def benchmark(name: str) -> Mapping[str, BenchmarkTask]:
    """Return the tasks of a benchmark.

    Raises:
        DataError: if there is no benchmark of that name.
    """
    tables = benchmarks()
    if name not in tables:
        suggestion = suggest(name, list(tables))
        raise DataError(
            f"there is no benchmark `{name}`; choose among {listed(tables)}.{suggestion}"
        )
    return tables[name]


def task_types() -> dict[str, str]:
    """Return the type of each task of all benchmarks, by the name of the task."""
    types = {}
    for tasks in benchmarks().values():
        for name, task in tasks.items():
            types[name] = task.type
    return types
