from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from sentbed._run.report_json import record_json as to_json
from sentbed.protocols import ReportData, RunStatus, Score
from sentbed_report import score_items as kept
from toy_study import hits

Numbers = Mapping[str, Mapping[int, Mapping[str, float]]]


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
