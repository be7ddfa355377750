"""What a configuration says of the length of texts is what the built model takes."""

from __future__ import annotations

import pytest
from sentbed.protocols import BuildContext
from sentbed_backbones.bert import Bert
from sentbed_backbones.causal import Causal
from sentbed_backbones.input_positions import positions_of
from sentbed_backbones.opt import Opt
from sentbed_backbones.t5 import T5


@pytest.mark.parametrize(
    "backbone", [Bert(init="random"), Opt(init="random"), Causal(init="random")]
)
def test_the_positions_of_a_random_model_are_those_of_the_built_one(
    backbone,
):
    assert (
        backbone.build(BuildContext(lambda: ["a few words"])).max_length
        == backbone.most_tokens()
    )


def test_texts_of_a_t5_may_have_any_length(save_model):
    assert T5(init="random").most_tokens() is None
    assert T5(model=str(save_model("t5", n_positions=8))).most_tokens() is None


@pytest.mark.parametrize(
    ("config", "positions"),
    [
        ({}, None),
        ({"max_position_embeddings": "many"}, None),
        ({"max_position_embeddings": 514, "model_type": "roberta"}, 512),
        (
            {
                "max_position_embeddings": 514,
                "model_type": "roberta",
                "pad_token_id": None,
            },
            512,
        ),
        (
            {"max_position_embeddings": 514, "model_type": "bert", "pad_token_id": 1},
            514,
        ),
        ({"n_positions": 1024, "model_type": "gpt2"}, 1024),
        ({"max_position_embeddings": 2, "model_type": "roberta"}, None),
    ],
)
def test_positions_of_a_configuration(config, positions):
    assert positions_of(config) == positions
