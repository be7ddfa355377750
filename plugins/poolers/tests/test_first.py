from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.first import First
from sentence_transformers.sentence_transformer.modules import Pooling


def test_the_vector_is_the_state_of_the_first_token(random_states):
    states = random_states([5, 2, 1])
    expected = [sentence[0] for sentence in states.last_hidden_state.tolist()]
    assert First().build(6)(states).tolist() == expected


@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_with_padding_on_the_left_it_is_that_of_a_loop_over_the_real_tokens(
    random_states, lengths
):
    states = random_states(lengths, side="left")
    expected = []
    for sentence, kept in zip(
        states.last_hidden_state.tolist(), states.attention_mask.tolist(), strict=True
    ):
        expected.append(
            next(token for token, keep in zip(sentence, kept, strict=True) if keep)
        )
    assert torch.equal(First().build(6)(states), torch.tensor(expected))


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_vector_is_that_of_sentence_transformers(random_states, side):
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    theirs = Pooling(8, pooling_mode="cls")(
        {
            "token_embeddings": states.last_hidden_state,
            "attention_mask": states.attention_mask,
        }
    )
    torch.testing.assert_close(
        First().build(8)(states), theirs["sentence_embedding"], rtol=0, atol=1e-6
    )


@pytest.mark.parametrize(
    ("mask", "places"),
    [
        (None, [0, 0]),
        ([[1, 1, 1, 1], [1, 0, 0, 0]], [0, 0]),
        ([[1, 1, 1, 1], [0, 0, 1, 1]], [0, 2]),
    ],
    ids=["none", "right", "left"],
)
def test_only_the_first_real_token_gets_a_gradient(mask, places):
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    weight = torch.tensor([1.0, -2.0, 3.0])
    states = TokenStates(hidden, None if mask is None else torch.tensor(mask))
    (First().build(3)(states) @ weight).sum().backward()
    expected = torch.zeros(2, 4, 3)
    expected[[0, 1], places] = weight
    assert torch.equal(hidden.grad, expected)


def test_the_pooler_has_no_weights():
    assert list(First().build(6).state_dict()) == []
