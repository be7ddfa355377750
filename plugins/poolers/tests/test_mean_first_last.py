from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentence_transformers.sentence_transformer.modules import Pooling

FIRST = pytest.mark.parametrize(("first", "place"), [("embeddings", 0), ("layer-1", 1)])


@FIRST
@pytest.mark.parametrize("side", ["right", "left"])
def test_the_vector_is_that_of_a_loop_over_the_sentences(
    random_states, side, first, place
):
    states = random_states([3, 9, 9, 1, 64], side=side, layers=3)
    rows = []
    for row, mask in enumerate(states.attention_mask.bool()):
        tokens = (states.layers[place][row, mask] + states.layers[-1][row, mask]) / 2
        rows.append(tokens.double().mean(dim=0).float())
    vectors = MeanFirstLast(first=first).build(6)(states)
    torch.testing.assert_close(vectors, torch.stack(rows), rtol=1e-5, atol=1e-6)
    assert MeanFirstLast().first == "layer-1"


@FIRST
def test_the_vector_is_the_mean_of_two_means_of_sentence_transformers(
    random_states, first, place
):
    states = random_states([7, 2, 4, 1, 9], width=8, layers=3)
    pooling = Pooling(8, pooling_mode="mean")
    means = [
        pooling(
            {
                "token_embeddings": states.layers[layer],
                "attention_mask": states.attention_mask,
            }
        )
        for layer in (place, -1)
    ]
    expected = (means[0]["sentence_embedding"] + means[1]["sentence_embedding"]) / 2
    vectors = MeanFirstLast(first=first).build(8)(states)
    torch.testing.assert_close(vectors, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("masked", [True, False])
def test_bf16_states_are_added_and_summed_in_fp32(random_states, masked):
    states = random_states([64, 64, 64], layers=2)
    narrow = tuple(layer.to(torch.bfloat16) for layer in states.layers)
    mask = states.attention_mask if masked else None
    vectors = MeanFirstLast().build(6)(TokenStates(narrow[-1], mask, narrow))
    assert vectors.dtype == torch.float32
    expected = ((narrow[1].double() + narrow[-1].double()) / 2).mean(dim=1).float()
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)
