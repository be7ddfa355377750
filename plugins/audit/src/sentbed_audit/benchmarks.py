"""The tasks of MTEB's benchmarks, with their splits and subsets."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from importlib import resources

import attrs
from sentbed.errors import DataError, listed, suggest


@attrs.frozen
class BenchmarkTask:
    """A task of a benchmark."""

    splits: tuple[str, ...]
    subsets: tuple[str, ...]


def benchmark_tasks(name: str) -> Mapping[str, BenchmarkTask]:
    """Return the tasks of a benchmark, by name, as the package's table has them (those of MTEB 2.26).

    Where `mteb` is installed, any other benchmark of MTEB has a name, too.

    Raises:
        DataError: if there is no benchmark of that name.
    """
    file = resources.files("sentbed_audit").joinpath("benchmarks.json")
    tables = json.loads(file.read_text("utf-8"))
    tasks = {}
    if name in tables:
        for task in tables[name]:
            splits, subsets = tuple(task["splits"]), tuple(task["subsets"])
            tasks[task["task"]] = BenchmarkTask(splits, subsets)
        return tasks

    if importlib.util.find_spec("mteb") is None:
        raise DataError(
            f"there is no benchmark `{name}` among {listed(tables)}.{suggest(name, list(tables))} With "
            "`pip install 'sentbed-audit[mteb]'`, all benchmarks of MTEB are known"
        )
    import mteb

    names = [entry.name for entry in mteb.get_benchmarks()]
    if name not in names:
        raise DataError(f"MTEB has no benchmark `{name}`.{suggest(name, names)}")
    for task in mteb.get_benchmark(name).tasks:
        splits, subsets = tuple(task.eval_splits), tuple(task.hf_subsets)
        tasks[task.metadata.name] = BenchmarkTask(splits, subsets)
    return tasks
