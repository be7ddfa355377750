"""The tasks of MTEB's benchmarks, with their splits, subsets and types."""

from __future__ import annotations

import importlib.util
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
    """Return the tasks of a benchmark: of the table or, where `mteb` is installed, of any benchmark of MTEB.

    Raises:
        DataError: if there is no benchmark of that name.
    """
    tables = benchmarks()
    if name in tables:
        return tables[name]
    if importlib.util.find_spec("mteb") is None:
        raise DataError(
            f"there is no benchmark `{name}` among {listed(tables)}.{suggest(name, list(tables))} With "
            "`pip install 'sentbed-audit[mteb]'`, all benchmarks of MTEB are known"
        )

    import mteb

    names = [entry.name for entry in mteb.get_benchmarks()]
    if name not in names:
        raise DataError(f"MTEB has no benchmark `{name}`.{suggest(name, names)}")
    table = {}
    for task in mteb.get_benchmark(name).tasks:
        splits, subsets = tuple(task.eval_splits), tuple(task.hf_subsets)
        table[task.metadata.name] = BenchmarkTask(task.metadata.type, splits, subsets)
    return table


def task_types(benchmark_tasks: Mapping[str, BenchmarkTask]) -> dict[str, str]:
    """Return the type of each task of a benchmark, and of all benchmarks of the table, by the task's name."""
    types = {}
    for tasks in (*benchmarks().values(), benchmark_tasks):
        for name, task in tasks.items():
            types[name] = task.type
    return types
