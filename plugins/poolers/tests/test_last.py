from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.last import Last
from sentence_transformers.sentence_transformer.modules import Pooling


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_the_vector_is_that_of_a_loop_over_the_real_tokens(
    random_states, lengths, side
):
    states = random_states(lengths, side=side)
    expected = []
    for sentence, kept in zip(
        states.last_hidden_state.tolist(), states.attention_mask.tolist(), strict=True
    ):
        expected.append(
            [token for token, keep in zip(sentence, kept, strict=True) if keep][-1]
        )
    torch.testing.assert_close(
        Last().build(6)(states), torch.tensor(expected), rtol=0, atol=0
    )


def test_without_a_mask_the_last_token_is_at_the_end(random_states):
    hidden = random_states([5, 2, 1]).last_hidden_state
    assert torch.equal(Last().build(6)(TokenStates(hidden, None)), hidden[:, 4])


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_vector_is_that_of_sentence_transformers(random_states, side):
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    theirs = Pooling(8, pooling_mode="lasttoken")(
        {
            "token_embeddings": states.last_hidden_state,
            "attention_mask": states.attention_mask,
        }
    )
    torch.testing.assert_close(
        Last().build(8)(states), theirs["sentence_embedding"], rtol=0, atol=1e-6
    )


def test_only_the_last_real_token_gets_a_gradient():
    hidden = torch.randn(3, 4, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 1, 1, 1]])
    weight = torch.tensor([1.0, -2.0, 3.0])
    (Last().build(3)(TokenStates(hidden, mask)) @ weight).sum().backward()
    expected = torch.zeros(3, 4, 3)
    expected[0, 1] = expected[1, 3] = expected[2, 3] = weight
    assert torch.equal(hidden.grad, expected)


def test_the_pooler_has_no_weights():
    assert list(Last().build(6).state_dict()) == []
