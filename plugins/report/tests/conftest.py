from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from sentbed._run.report_json import record_json
from sentbed.protocols import ReportData, RunStatus, Score
from sentbed_report.score_items import keep_items
from toy_study import hits


@pytest.fixture
def write_run(tmp_path: Path) -> Callable[..., Path]:
    """Write a run directory with these scores."""

    def write(
        name: str,
        *scores: Score,
        directory: str | None = None,
        seed: int = 1,
        status: RunStatus = "finished",
        pooler: dict[str, Any] | None = None,
    ) -> Path:
        path = tmp_path / (directory or name)
        path.mkdir()
        recipe = {"run": {"name": name, "seed": seed}, "encoder": {"pooler": pooler or {}}}
        (path / "resolved.toml").write_text(tomli_w.dumps(recipe))
        (path / "manifest.json").write_text(json.dumps({"status": status}))
        error = None if status == "finished" else "out of memory"
        data = ReportData(name, status, error, "2026-03-04T14:05:33+00:00", 2.5, "", {}, scores)
        (path / "report.json").write_text(record_json(data))
        keep_items(path, scores)
        return path

    return write


@pytest.fixture
def run_of(write_run: Callable[..., Path]) -> Callable[..., Path]:
    """Write a run directory with a score of which a share of the items are right."""

    def write(
        directory: str,
        share: float = 0.5,
        seed: int = 1,
        name: str | None = None,
        status: RunStatus = "finished",
        **pooler: Any,
    ) -> Path:
        items = hits(share, seed)
        protocol = {"encoder": {}, "evaluator": {"id": "p"}}
        score = Score("MR", "accuracy", 100 * float(items.x.mean()), protocol, "en", "transfer", items)
        return write_run(
            name or directory, score, directory=directory, seed=seed, status=status, pooler=pooler
        )

    return write
