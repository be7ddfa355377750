from __future__ import annotations

import attrs
import pytest
from sentbed._registry.registry import load_plugins
from sentbed_studies import study_plan
from sentbed_studies.cell_keys import CellKeys
from sentbed_studies.shared_work_plan import Bundle, plan_work
from sentbed_studies.study import read_study
from sentbed_studies.study_plan import workers_for
from toy_plugin import TOWERS, Toy, quicken

AXES = """
[study]
seeds = [1, 2]
[study.axes.lr]
path = "stage.tune.optimizer.lr"
values = [0.5, 0.25]
"""


@pytest.fixture
def work(put, installed_toy, monkeypatch):
    """Return the work of four runs."""
    quicken(monkeypatch)
    study = read_study(put("study.toml", TOWERS + AXES))
    return plan_work("towers", study.runs, CellKeys(load_plugins()), share=False)


def with_threads(work, threads):
    """Return the work with runtimes that have so many threads, in turn; the toy's has none."""

    @attrs.frozen
    class Threaded(Toy):
        threads: int | None = None

    bundles = []
    for number, task in enumerate(work.tasks):
        runtime = Threaded(threads=threads[number % len(threads)])
        recipe = attrs.evolve(task.recipe, runtime=runtime)
        bundles.append(Bundle((attrs.evolve(task, recipe=recipe),)))
    return attrs.evolve(work, bundles=tuple(bundles))


@pytest.mark.parametrize(
    ("threads", "cores", "gibibytes", "workers"),
    [
        ([1], 8, 100, 4),
        ([1], 3, 100, 3),
        ([1, 4], 8, 100, 2),
        ([1], 8, 8, 2),
        ([1], 8, 1, 1),
        ([None], 8, 100, 1),
        ([1, None], 8, 100, 1),
    ],
    ids=[
        "a bundle each",
        "cores",
        "threads",
        "memory",
        "one in any case",
        "all cores",
        "some",
    ],
)
def test_workers_are_what_cores_and_memory_are_enough_for(
    threads, cores, gibibytes, workers, work, monkeypatch
):
    four = with_threads(work, threads)
    monkeypatch.setattr(study_plan, "usable_cores", lambda: cores)
    monkeypatch.setattr(study_plan, "core_quota", lambda: None)
    monkeypatch.setattr(study_plan, "memory_limit", lambda: gibibytes * 2**30)
    assert workers_for(four) == workers
