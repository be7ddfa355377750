from __future__ import annotations

import numpy as np
import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.weighted_mean import WeightedMean
from sentence_transformers.sentence_transformer.modules import Pooling


def naive_weighted_mean(states):
    """Count the real tokens of each sentence from 1, in a loop."""
    rows = []
    for sentence, kept in zip(
        states.last_hidden_state.numpy(), states.attention_mask.numpy(), strict=True
    ):
        place, total, weights = 0, np.zeros(sentence.shape[1]), 0
        for token, keep in zip(sentence.astype(np.float64), kept, strict=True):
            if keep:
                place += 1
                total = total + place * token
                weights += place
        rows.append(total / weights)
    return np.array(rows)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_the_mean_is_that_of_a_naive_loop_over_the_real_tokens(
    random_states, lengths, side
):
    states = random_states(lengths, side=side)
    vectors = WeightedMean().build(6)(states)
    np.testing.assert_allclose(
        vectors.numpy(), naive_weighted_mean(states), rtol=1e-5, atol=1e-6
    )


def test_the_mean_is_that_of_sentence_transformers(random_states):
    """It counts padding too, which with padding on the right changes no weight of a real token."""
    states = random_states([7, 2, 4, 1, 9], width=8)
    theirs = Pooling(8, pooling_mode="weightedmean")(
        {
            "token_embeddings": states.last_hidden_state,
            "attention_mask": states.attention_mask,
        }
    )
    ours = WeightedMean().build(8)(states)
    torch.testing.assert_close(ours, theirs["sentence_embedding"], rtol=0, atol=1e-6)


def test_the_mean_of_a_known_sentence():
    hidden = torch.tensor([[[3.0, 0.0], [0.0, 3.0], [100.0, -100.0]]])
    vectors = WeightedMean().build(2)(TokenStates(hidden, torch.tensor([[1, 1, 0]])))
    assert vectors.tolist() == [[1.0, 2.0]]
