"""The recipe in the shape of EmbeddingGemma on real files, with few steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentbed

RECIPE = Path(__file__).parents[2] / "recipes" / "mini" / "embedding-gemma.toml"
SHORT = [
    "stage.pairs.epochs=",
    "stage.pairs.steps=2",
    "stage.pairs.batch_size=8",
    "stage.finetuning.epochs=",
    "stage.finetuning.steps=2",
    "stage.finetuning.batch_size=8",
    "stage.finetuning.validate=",
    'evaluate.0.at=["end"]',
]
pytestmark = pytest.mark.usefixtures("data_directory", "minilm")


def test_the_stages_have_the_losses_of_the_recipe(tmp_path):
    recipe = sentbed.load_recipe(
        RECIPE, [*SHORT, "stage.finetuning.data.source.limit=64"]
    )
    run = sentbed.run(recipe, tmp_path / "run")
    log = (run.directory / "log.jsonl").read_text("utf-8").splitlines()
    steps = [
        event for event in map(json.loads, log) if event["event"] == "step_finished"
    ]

    assert [step["stage"] for step in steps] == ["pairs"] * 2 + ["finetuning"] * 2

    for step in steps:
        metrics = step["metrics"]
        assert step["loss"] == pytest.approx(
            metrics["matryoshka"] + metrics["distill"], rel=1e-4
        )
        cuts = [metrics[f"matryoshka.{width}"] for width in (384, 256, 128, 64)]
        assert metrics["matryoshka"] == pytest.approx(sum(cuts), rel=1e-4)
