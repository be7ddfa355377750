from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.mean import Mean
from sentence_transformers.sentence_transformer.modules import Pooling


def naive_mean(states):
    rows = []
    for sentence, kept in zip(
        states.last_hidden_state.tolist(), states.attention_mask.tolist(), strict=True
    ):
        tokens = [token for token, keep in zip(sentence, kept, strict=True) if keep]
        rows.append([sum(column) / len(tokens) for column in zip(*tokens, strict=True)])
    return rows


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", [[1], [5], [7, 2, 1, 4], [3, 9, 9, 1, 64]])
def test_the_mean_is_that_of_a_naive_loop_over_the_real_tokens(
    random_states, lengths, side
):
    states = random_states(lengths, side=side)
    vectors = Mean().build(6)(states)
    torch.testing.assert_close(
        vectors, torch.tensor(naive_mean(states)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_mean_is_that_of_sentence_transformers(random_states, side):
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    theirs = Pooling(8, pooling_mode="mean")(
        {
            "token_embeddings": states.last_hidden_state,
            "attention_mask": states.attention_mask,
        }
    )
    torch.testing.assert_close(
        Mean().build(8)(states), theirs["sentence_embedding"], rtol=0, atol=1e-6
    )


def test_the_mean_of_a_known_sentence():
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [100.0, -100.0]]])
    vectors = Mean().build(2)(TokenStates(hidden, torch.tensor([[1, 1, 0]])))
    assert vectors.tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize("masked", [True, False])
def test_bf16_states_are_summed_in_fp32(random_states, masked):
    states = random_states([64, 64, 64])
    narrow = states.last_hidden_state.to(torch.bfloat16)
    vectors = Mean().build(6)(
        TokenStates(narrow, states.attention_mask if masked else None)
    )
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(
        vectors, narrow.double().mean(dim=1).float(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("lengths", [[64, 3], [64, 64]])
def test_autocast_leaves_the_sum_in_fp32(random_states, lengths):
    """Training in bf16 pools under autocast, which would narrow a product of matrices."""
    states = random_states(lengths)
    pooler = Mean().build(6)
    with torch.autocast("cpu", torch.bfloat16):
        vectors = pooler(states)
    torch.testing.assert_close(
        vectors, torch.tensor(naive_mean(states)), rtol=1e-5, atol=1e-6
    )


def test_each_real_token_gets_its_share_of_the_gradient_and_padding_none():
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    weight = torch.tensor([1.0, -2.0, 3.0])
    (Mean().build(3)(TokenStates(hidden, mask)) @ weight).sum().backward()
    shares = torch.tensor([[0.25] * 4, [0.5, 0.5, 0.0, 0.0]])
    torch.testing.assert_close(hidden.grad, shares[:, :, None] * weight)


def test_the_pooler_has_no_weights_and_keeps_the_width():
    module = Mean().build(6)
    assert list(module.state_dict()) == []
    assert Mean().output_width(6) == 6
