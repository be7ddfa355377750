"""The poolers of the states of tokens: `first`, `last`, `max`, `mean`, `weighted-mean` and `mean-first-last`."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.first import First
from sentbed_poolers.last import Last
from sentbed_poolers.max import Max
from sentbed_poolers.mean import Mean
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentbed_poolers.weighted_mean import WeightedMean
from sentence_transformers.sentence_transformer.modules import Pooling


def weighted_mean(tokens):
    weights = torch.arange(1, len(tokens) + 1, dtype=torch.float64)
    return weights @ tokens / weights.sum()


OF_LAST_LAYER = {
    First(): lambda tokens: tokens[0],
    Last(): lambda tokens: tokens[-1],
    Max(): lambda tokens: tokens.amax(0),
    Mean(): lambda tokens: tokens.mean(0),
    WeightedMean(): weighted_mean,
}
"""Poolers, and what they make of the states of one sentence's tokens in the last layer, `(length, width)`."""

FIRST_LAYERS = {
    MeanFirstLast(first="embeddings"): 0,
    MeanFirstLast(first="layer-1"): 1,
}
"""Poolers, and the number of the layer whose states they add to those of the last."""


def vectors_by_hand(pooler, states):
    """Pool one sentence at a time in float64, without padding."""
    masks = states.attention_mask
    if masks is None:
        masks = torch.ones(states.last_hidden_state.shape[:2])

    hidden = states.last_hidden_state.double()
    pool = OF_LAST_LAYER.get(pooler, OF_LAST_LAYER[Mean()])
    if pooler in FIRST_LAYERS:
        hidden = (states.layers[FIRST_LAYERS[pooler]].double() + hidden) / 2

    vectors = []
    for row, mask in zip(hidden, masks, strict=True):
        vectors.append(pool(row[mask.bool()]))

    return torch.stack(vectors).float()


@pytest.mark.parametrize("pooler", [*OF_LAST_LAYER, *FIRST_LAYERS], ids=str)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_vectors_are_those_of_a_loop_over_the_real_tokens(
    random_states, pooler, lengths, side
):
    states = random_states(lengths, side=side, layers=3)
    module = pooler.build(6)
    expected = vectors_by_hand(pooler, states)
    torch.testing.assert_close(module(states), expected, rtol=1e-5, atol=1e-6)
    # What was padding is a thousand times as large.
    whole = states._replace(attention_mask=None)
    expected = vectors_by_hand(pooler, whole)
    torch.testing.assert_close(module(whole), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("pooler", OF_LAST_LAYER, ids=str)
def test_vectors_are_those_of_sentence_transformers(random_states, pooler, side):
    if pooler == WeightedMean() and side == "left":
        pytest.skip("sentence-transformers counts padding, too")
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    features = {
        "token_embeddings": states.last_hidden_state,
        "attention_mask": states.attention_mask,
    }
    theirs = Pooling(8, pooling_mode=pooler.pooling)(features)
    vectors = pooler.build(8)(states)
    torch.testing.assert_close(vectors, theirs["sentence_embedding"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("pooler", [Mean(), *FIRST_LAYERS], ids=str)
@pytest.mark.parametrize("masked", [True, False])
def test_bf16_states_are_summed_in_fp32(random_states, pooler, masked):
    states = random_states([64, 64, 64], layers=2)
    layers = tuple(layer.to(torch.bfloat16) for layer in states.layers)
    mask = states.attention_mask if masked else None
    narrow = TokenStates(layers[-1], mask, layers)
    vectors = pooler.build(6)(narrow)
    assert vectors.dtype == torch.float32
    expected = vectors_by_hand(pooler, narrow)
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)


def test_the_first_layer_is_by_default_that_of_a_transformer():
    assert MeanFirstLast().first == "layer-1"


@pytest.mark.parametrize("lengths", [[64, 3], [64, 64]])
def test_autocast_leaves_the_sum_in_fp32(random_states, lengths):
    """Training in bf16 pools under autocast, which would narrow a product of matrices."""
    states = random_states(lengths)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = Mean().build(6)(states)
    expected = vectors_by_hand(Mean(), states)
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)
