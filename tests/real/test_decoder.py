"""Sentence-T5's decoder on real files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentbed

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.usefixtures("data_directory")


def _validations(result, stage):
    """Return what each look at a stage's validation data found."""
    stages = json.loads((result.directory / "report.json").read_text())["stages"]
    return [
        score
        for record in stages
        if record["name"] == stage
        for _, score in record["validations"]
    ]


def test_the_first_output_of_a_small_decoder_learns(tmp_path):
    # How far 96 steps lead beyond random weights differs by points from machine to machine: a last bit of one
    # sum becomes another run. That later looks find more than the first does not.
    path = RECIPES / "mini" / "sentence-t5.toml"
    recipe = sentbed.load_recipe(
        path, ["encoder.pooler.use=decoder", "stage.nli.epochs=4"]
    )
    looks = _validations(sentbed.run(recipe, tmp_path / "run"), "nli")
    # The first one is before the first step.
    assert len(looks) == 5
    assert max(looks[2:]) - looks[1] > 2
