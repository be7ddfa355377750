from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentence_transformers.sentence_transformer.modules import Pooling

FIRST = pytest.mark.parametrize(("first", "place"), [("embeddings", 0), ("layer-1", 1)])


def naive(states, place):
    layers = [layer.tolist() for layer in states.layers]
    rows = []
    for row, kept in enumerate(states.attention_mask.tolist()):
        tokens = [token for token, keep in enumerate(kept) if keep]
        rows.append(
            [
                sum(
                    (layers[place][row][t][i] + layers[-1][row][t][i]) / 2
                    for t in tokens
                )
                / len(tokens)
                for i in range(len(layers[-1][row][0]))
            ]
        )
    return rows


@FIRST
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_the_vector_is_that_of_a_naive_loop_over_the_real_tokens(
    random_states, lengths, side, first, place
):
    states = random_states(lengths, side=side, layers=3)
    vectors = MeanFirstLast(first=first).build(6)(states)
    torch.testing.assert_close(
        vectors, torch.tensor(naive(states, place)), rtol=1e-5, atol=1e-6
    )


def test_the_first_layer_is_layer_1_unless_told_otherwise(
    random_states,
):
    states = random_states([5, 2], layers=3)
    expected = torch.tensor(naive(states, 1))
    torch.testing.assert_close(
        MeanFirstLast().build(6)(states), expected, rtol=1e-5, atol=1e-6
    )


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
