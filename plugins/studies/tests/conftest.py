from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, distribution
from typing import Any

import numpy as np
import pytest
from sentbed.protocols import Items, Score
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, CellStatus, StudyData

Numbers = Mapping[str, Mapping[int, Mapping[str, float]]]


def hits(share: float, seed: int, n: int = 300) -> Items:
    """Items of a mean, of which about `share` are right; the same ones are easy under every seed."""
    easy = np.random.default_rng(99).random(n)
    return Items("mean", (easy + 0.1 * np.random.default_rng(seed).normal(size=n) < share).astype(float))


@pytest.fixture(scope="session")
def toy_points(toy_points: list[EntryPoint]) -> list[EntryPoint]:
    """The entry points of the toy plugin, of core, and of the tools that a study needs."""
    tools = ("sentbed-report", "sentbed-studies", "sentbed-jobs", "sentbed-workbench")
    own = [point for name in tools for point in distribution(name).entry_points.select(group="sentbed")]
    return [*toy_points, *own]


@pytest.fixture
def study_of() -> Callable[..., StudyData]:
    """Make a study out of cell -> seed -> task -> score; the labels of a cell are its name's parts."""

    def make(
        numbers: Numbers,
        axes: Sequence[AxisInfo] = (),
        baseline: str | None = None,
        statuses: Mapping[str, CellStatus] | None = None,
        items: bool = False,
        protocol: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> StudyData:
        def scores(tasks: Mapping[str, float], seed: int) -> tuple[Score, ...]:
            return tuple(
                Score(
                    task.partition("/")[0],
                    task.partition("/")[2] or "accuracy",
                    value,
                    {"encoder": {}, "evaluator": {"id": "p", **(protocol or {})}},
                    "en",
                    "transfer",
                    hits(value / 100, seed) if items else None,
                )
                for task, value in tasks.items()
            )

        cells = []
        for name, seeds in numbers.items():
            labels = dict(zip((axis.name for axis in axes), name.split(", "), strict=bool(axes)))
            status = (statuses or {}).get(name, "finished")
            runs = tuple(
                CellRun(name, seed, "finished" if tasks else status, scores=scores(tasks, seed))
                for seed, tasks in seeds.items()
            )
            cells.append(CellInfo(name, labels if axes else {}, runs))
        seeds_found = dict.fromkeys(seed for seeds in numbers.values() for seed in seeds)
        return StudyData("toy", tuple(axes), tuple(cells), baseline, tuple(seeds_found), **more)

    return make
