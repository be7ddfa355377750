"""The public doors that rooms use, and one reader for each thing that a run leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


def score_rows(directory: Path) -> list[dict]:
    """Return the scores of a run: evaluator, task, metric, value, protocol of encoder and evaluator."""
    report = json.loads((directory / "report.json").read_text("utf-8"))
    return report["scores"]


def scores_of_run(directory: Path) -> dict[str, float]:
    """Return the scores of a run by encoder, task, metric and the evaluator's way of computing it."""
    scores = {}
    for score in score_rows(directory):
        way = score["protocol"]["evaluator"]["id"]
        key = f"{score['encoder']} {score['task']} {score['metric']} {way}"
        if key in scores:
            raise ValueError(f"{directory} has two scores {key!r}")
        scores[key] = score["value"]
    return scores


def install_planted(directory: Path) -> None:
    """Install the module `planted` as a plugin, for commands that run in `directory`."""
    information = directory / "planted-0.1.dist-info"
    information.mkdir()
    metadata = "Metadata-Version: 2.1\nName: planted\nVersion: 0.1\n"
    (information / "METADATA").write_text(metadata)
    (information / "entry_points.txt").write_text("[sentbed]\nplanted = planted\n")


def run_command(
    directory: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of sentbed in `directory`, with the plugin that is installed there."""
    python_path = os.pathsep.join([str(directory), str(Path(__file__).parent)])
    command = [sys.executable, "-m", "sentbed", *words]
    environment = os.environ | environment | {"PYTHONPATH": python_path}
    done = subprocess.run(
        command,
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode and "PLANTED_KILL" not in environment:
        raise RuntimeError(f"sentbed {' '.join(words)}: {done.stderr}")
    return done
