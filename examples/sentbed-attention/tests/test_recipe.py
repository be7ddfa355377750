from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentbed
from safetensors.numpy import load_file

RECIPE = Path(__file__).parent.parent / "recipe" / "attention.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    sentbed.run(sentbed.load_recipe(RECIPE, ["run.cache=false"]), directory)
    return directory


def test_the_encoder_learns_with_both_parts(run: Path) -> None:
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step_finished"]
    assert len(losses) == 15
    assert sum(losses[-3:]) < sum(losses[:3]) / 2


def test_queries_are_trained_and_saved_with_the_encoder(run: Path) -> None:
    weights = {
        name: value
        for file in (run / "encoder").glob("*.safetensors")
        for name, value in load_file(file).items()
    }
    (query,) = [value for name, value in weights.items() if name.endswith("query")]
    assert query.shape == (4, 32)
    assert abs(query).min() > 0
    placed: Any = sentbed.Encoder.load(run / "encoder").placed
    (loaded,) = placed.module.pooler.parameters()
    assert (loaded.detach().numpy() == query).all()


def test_the_run_says_where_its_parts_came_from(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    assert "sentbed-attention" in {plugin["distribution"] for plugin in manifest["plugins"]}
