"""The public doors that rooms use, and one reader for each thing that a run leaves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import sentbed


def run_recipe(path: Path, directory: Path, settings: Sequence[str] = ()) -> Path:
    """Run a recipe file with `PATH=VALUE` settings, and return its run directory."""
    recipe = sentbed.load_recipe(path, settings)
    return sentbed.run(recipe, directory).directory


def steps_of_run(directory: Path) -> list[dict]:
    """Return the steps of a run's stages, with `stage`, `step`, `loss`, `grad_norm` and `metrics`."""
    steps = []
    for line in (directory / "log.jsonl").read_text("utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "step_finished":
            steps.append(event)
    return steps


def scores_of_run(directory: Path) -> dict[str, float]:
    """Return the scores of a run by encoder, task, metric and the evaluator's way of computing it."""
    report = json.loads((directory / "report.json").read_text("utf-8"))
    scores = {}
    for score in report["scores"]:
        way = score["protocol"]["evaluator"]["id"]
        key = f"{score['encoder']} {score['task']} {score['metric']} {way}"
        if key in scores:
            raise ValueError(f"{directory} has two scores {key!r}")
        scores[key] = score["value"]
    return scores
