"""The pooler `max`, against values computed by hand and against sentence-transformers."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.max import Max
from sentence_transformers.sentence_transformer.modules import Pooling

STATES = [[[-3.0, 1.0], [-1.0, -2.0], [5.0, 5.0]]]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [(None, [[5.0, 5.0]]), ([[1, 1, 0]], [[-1.0, 1.0]])],
)
def test_padding_is_never_the_largest(mask, expected):
    attention_mask = None if mask is None else torch.tensor(mask)
    states = TokenStates(torch.tensor(STATES), attention_mask)

    assert Max().build(2)(states).tolist() == expected


@pytest.mark.parametrize("side", ["right", "left"])
def test_vectors_are_those_of_sentence_transformers(random_states, side):
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    theirs = Pooling(8, pooling_mode="max")(
        {
            "token_embeddings": states.last_hidden_state,
            "attention_mask": states.attention_mask,
        }
    )

    assert torch.equal(Max().build(8)(states), theirs["sentence_embedding"])
