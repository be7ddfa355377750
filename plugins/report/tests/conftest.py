from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from sentbed._run.report_json import record_json as to_json
from sentbed.protocols import Items, ReportData, RunStatus, Score
from sentbed_report import score_items as kept
from sentbed_report.study.study_data import AxisInfo, CellInfo, CellRun, CellStatus, StudyData

Numbers = Mapping[str, Mapping[int, Mapping[str, float]]]


def hits(share: float, seed: int, n: int = 300) -> Items:
    """Items of a mean, of which about `share` are right; the same ones are easy under every seed."""
    easy = np.random.default_rng(99).random(n)
    return Items("mean", (easy + 0.1 * np.random.default_rng(seed).normal(size=n) < share).astype(float))


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


@pytest.fixture
def run_of(tmp_path: Path) -> Callable[..., Path]:
    """Write a run directory."""

    def write(
        directory: str,
        share: float = 0.5,
        seed: int = 1,
        name: str | None = None,
        status: RunStatus = "finished",
        **pooler: Any,
    ) -> Path:
        path = tmp_path / directory
        path.mkdir()
        found = hits(share, seed)
        said = {"encoder": {}, "evaluator": {"id": "p"}}
        score = Score("MR", "accuracy", 100 * float(found.x.mean()), said, "en", "transfer", found)
        recipe = {"run": {"name": name or directory, "seed": seed}, "encoder": {"pooler": pooler}}
        (path / "resolved.toml").write_text(tomli_w.dumps(recipe))
        (path / "manifest.json").write_text(json.dumps({"status": status}))
        error = None if status == "finished" else "out of memory"
        data = ReportData(
            path.name,
            status,
            error,
            "2026-03-04T14:05:33+00:00",
            2.5,
            "",
            {},
            (score,),
        )
        (path / "report.json").write_text(to_json(data))
        kept.keep_items(path, [score])
        return path

    return write
