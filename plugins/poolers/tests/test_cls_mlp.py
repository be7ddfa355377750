from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers.cls_mlp import ClsMLP
from sentbed_poolers.first import First
from sentence_transformers.base.modules import Dense
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertPooler

States = Callable[..., TokenStates]


def drawn_weights(width: int) -> dict[str, torch.Tensor]:
    """Weights large enough for tanh to bend, and a bias that is not zero."""
    generator = torch.Generator().manual_seed(1)
    return {
        "dense.weight": torch.randn(width, width, generator=generator) / width**0.5,
        "dense.bias": torch.randn(width, generator=generator),
    }


def test_the_vector_is_that_of_the_pooler_of_transformers_with_the_same_weights(
    random_states: States,
) -> None:
    states = random_states([7, 2, 4, 1, 9], width=8)
    theirs, ours = BertPooler(BertConfig(hidden_size=8, num_attention_heads=2)), ClsMLP().build(8)
    for module in (theirs, ours):
        module.load_state_dict(drawn_weights(8))
    torch.testing.assert_close(ours(states), theirs(states.last_hidden_state), rtol=0, atol=1e-6)


@pytest.mark.parametrize("side", ["right", "left"])
def test_the_vector_is_that_of_sentence_transformers_with_the_same_weights(
    random_states: States, side: str
) -> None:
    states = random_states([7, 2, 4, 1, 9], width=8, side=side)
    weights = drawn_weights(8)
    pooling = Pooling(8, pooling_mode="cls")
    dense = Dense(8, 8, activation_function=torch.nn.Tanh())
    dense.linear.load_state_dict({"weight": weights["dense.weight"], "bias": weights["dense.bias"]})
    features = {"token_embeddings": states.last_hidden_state, "attention_mask": states.attention_mask}
    ours = ClsMLP().build(8)
    ours.load_state_dict(weights)
    theirs = dense(pooling(features))["sentence_embedding"]
    torch.testing.assert_close(ours(states), theirs, rtol=0, atol=1e-6)


def test_weights_are_drawn_with_deviation_one_fiftieth_and_the_bias_is_zero() -> None:
    torch.manual_seed(0)
    dense = ClsMLP().build(256).dense
    # 65,536 draws: the deviation is known to about 0.3 %, the mean to 8e-5.
    assert dense.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert dense.weight.mean().item() == pytest.approx(0, abs=4e-4)
    # Of a uniform distribution with this deviation, none would be beyond 0.035; of a normal one, 8 %.
    assert (dense.weight.abs() > 0.035).float().mean().item() == pytest.approx(0.080, abs=0.01)
    assert not dense.bias.any()


def test_the_layer_is_there_in_training_and_at_test(random_states: States) -> None:
    states = random_states([5, 2, 1])
    module = ClsMLP().build(6)
    expected = torch.tanh(states.last_hidden_state[:, 0] @ module.dense.weight.T)
    torch.testing.assert_close(module.train()(states), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.eval()(states), expected, rtol=0, atol=1e-6)
    assert ClsMLP().traits.at_test is None


def test_with_the_switch_the_layer_is_there_in_training_only(random_states: States) -> None:
    states = random_states([5, 2, 1])
    pooler = ClsMLP(mlp_only_train=True)
    module = pooler.build(6)
    expected = torch.tanh(states.last_hidden_state[:, 0] @ module.dense.weight.T)
    torch.testing.assert_close(module.train()(states), expected, rtol=0, atol=1e-6)
    assert pooler.traits.at_test == First.name
    assert torch.equal(module.eval()(states), First().build(6)(states))
    torch.testing.assert_close(module.train()(states), expected, rtol=0, atol=1e-6)


def test_the_gradient_reaches_layer_bias_and_the_first_real_token_alone() -> None:
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1]])
    module = ClsMLP(mlp_only_train=True).build(3)
    module(TokenStates(hidden, mask)).sum().backward()
    first = hidden.detach()[[0, 1], [0, 2]]
    slope = 1 - torch.tanh(first @ module.dense.weight.T).square()
    expected = torch.zeros(2, 4, 3)
    expected[[0, 1], [0, 2]] = (slope @ module.dense.weight).detach()
    torch.testing.assert_close(hidden.grad, expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.dense.weight.grad, slope.T @ first, rtol=0, atol=1e-6)
    torch.testing.assert_close(module.dense.bias.grad, slope.sum(dim=0), rtol=0, atol=1e-6)
