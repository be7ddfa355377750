"""Sentence-T5's two stages on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentbed

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.usefixtures("data_directory")


@pytest.mark.parametrize(("pooler", "epochs"), [("first", 3), ("mean", 2)])
def test_a_two_layer_t5_learns_under_the_poolers_of_its_encoder(
    pooler, epochs, tmp_path, spearman
):
    path = RECIPES / "mini" / "sentence-t5.toml"
    recipe = sentbed.load_recipe(
        path, [f"encoder.pooler.use={pooler}", f"stage.nli.epochs={epochs}"]
    )
    values = spearman(sentbed.run(recipe, tmp_path / "run"))

    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > 1
