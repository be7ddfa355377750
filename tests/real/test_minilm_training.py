"""Training of pretrained weights on real files."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentbed

RECIPES = Path(__file__).parents[2] / "recipes"
pytestmark = pytest.mark.usefixtures("data_directory")


@pytest.mark.usefixtures("minilm")
def test_unsupervised_simcse_does_not_spoil_minilm(tmp_path, spearman):
    recipe = sentbed.load_recipe(
        RECIPES / "mini" / "minilm-simcse.toml", ["stage.dropout.data.limit=1600"]
    )
    values = spearman(sentbed.run(recipe, tmp_path / "run"))
    assert values["encoder/STSB-dev"] - values["encoder@start/STSB-dev"] > -3


@pytest.mark.usefixtures("minilm")
def test_a_contrastive_loss_beats_a_classification_loss(tmp_path, spearman):
    path = RECIPES / "mini" / "sentbench.toml"
    short = [
        "stage.train.data.limit=1600",
        'stage.train.validate.keep="last"',
        'evaluate.0.tasks=["STSB-dev"]',
        'evaluate.0.at=["end"]',
        'evaluate.1.tasks=["ST"]',
        'evaluate.1.at=["end"]',
        "evaluate.1.limit=400",
        'evaluate.1.mode="fast"',
    ]
    scores = {}
    for loss in ("info-nce", "classification"):
        recipe = sentbed.load_recipe(
            path, [*short, f'stage.train.loss={{ use = "{loss}" }}']
        )
        result = sentbed.run(recipe, tmp_path / loss)
        contrast = next(
            score.value
            for score in result.scores
            if score.metric == "contrast-accuracy"
        )
        scores[loss] = spearman(result)["encoder/STSB-dev"], contrast

    assert scores["info-nce"][0] > scores["classification"][0] + 1
    # A line in old and in modern English: chance is 50.
    assert scores["info-nce"][1] > 85
