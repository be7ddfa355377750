"""The poolers `first`, `last`, `max`, `mean` and `weighted-mean`, which read the last layer's states."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.first import First
from sentbed_poolers.last import Last
from sentbed_poolers.max import Max
from sentbed_poolers.mean import Mean
from sentbed_poolers.weighted_mean import WeightedMean
from sentence_transformers.sentence_transformer.modules import Pooling


def weighted_mean(tokens):
    weights = torch.arange(1, len(tokens) + 1, dtype=torch.float64)
    return weights @ tokens / weights.sum()


BY_HAND = {
    First(): lambda tokens: tokens[0],
    Last(): lambda tokens: tokens[-1],
    Max(): lambda tokens: tokens.amax(0),
    Mean(): lambda tokens: tokens.mean(0),
    WeightedMean(): weighted_mean,
}
"""Poolers, and what they make of one sentence's tokens, `(length, width)`."""


def vectors_by_hand(pooler, states):
    """Pool one sentence at a time in float64, without padding."""
    masks = states.attention_mask
    if masks is None:
        masks = torch.ones(states.last_hidden_state.shape[:2])
    vectors = []
    for hidden, mask in zip(states.last_hidden_state, masks, strict=True):
        vectors.append(BY_HAND[pooler](hidden[mask.bool()].double()))
    return torch.stack(vectors).float()


@pytest.mark.parametrize("pooler", BY_HAND, ids=str)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_vectors_are_those_of_a_loop_over_the_real_tokens(
    random_states, pooler, lengths, side
):
    states = random_states(lengths, side=side)
    module = pooler.build(6)
    expected = vectors_by_hand(pooler, states)
    torch.testing.assert_close(module(states), expected, rtol=1e-5, atol=1e-6)
    # What was padding is a thousand times as large.
    whole = states._replace(attention_mask=None)
    expected = vectors_by_hand(pooler, whole)
    torch.testing.assert_close(module(whole), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("pooler", BY_HAND, ids=str)
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


@pytest.mark.parametrize("masked", [True, False])
def test_bf16_states_are_summed_in_fp32(random_states, masked):
    states = random_states([64, 64, 64])
    narrow = states.last_hidden_state.to(torch.bfloat16)
    mask = states.attention_mask if masked else None
    vectors = Mean().build(6)(TokenStates(narrow, mask))
    assert vectors.dtype == torch.float32
    expected = narrow.double().mean(dim=1).float()
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lengths", [[64, 3], [64, 64]])
def test_autocast_leaves_the_sum_in_fp32(random_states, lengths):
    """Training in bf16 pools under autocast, which would narrow a product of matrices."""
    states = random_states(lengths)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = Mean().build(6)(states)
    expected = vectors_by_hand(Mean(), states)
    torch.testing.assert_close(vectors, expected, rtol=1e-5, atol=1e-6)
