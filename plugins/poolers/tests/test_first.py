from __future__ import annotations

from collections.abc import Callable

import torch
from sentbed.protocols import TokenStates
from sentbed_poolers import First

States = Callable[..., TokenStates]


def test_the_vector_is_the_state_of_the_first_token(random_states: States) -> None:
    states = random_states([5, 2, 1])
    expected = [sentence[0] for sentence in states.last_hidden_state.tolist()]
    assert First().build(6)(states).tolist() == expected


def test_mask_and_padding_change_nothing(random_states: States) -> None:
    states = random_states([5, 2, 1])
    pooler = First().build(6)
    padded = torch.cat([states.last_hidden_state, torch.full((3, 4, 6), 1e4)], dim=1)
    assert torch.equal(pooler(TokenStates(states.last_hidden_state, None)), pooler(states))
    assert torch.equal(pooler(TokenStates(padded, None)), pooler(states))


def test_the_order_of_the_batch_changes_no_vector(random_states: States) -> None:
    states = random_states([5, 2, 1])
    pooler = First().build(6)
    shuffled = TokenStates(states.last_hidden_state[[2, 0, 1]], states.attention_mask[[2, 0, 1]])
    assert torch.equal(pooler(shuffled), pooler(states)[[2, 0, 1]])


def test_only_the_first_token_gets_a_gradient() -> None:
    hidden = torch.randn(2, 4, 3, requires_grad=True)
    weight = torch.tensor([1.0, -2.0, 3.0])
    (First().build(3)(TokenStates(hidden, None)) @ weight).sum().backward()
    expected = torch.zeros(2, 4, 3)
    expected[:, 0] = weight
    assert torch.equal(hidden.grad, expected)


def test_the_pooler_has_no_weights() -> None:
    assert list(First().build(6).state_dict()) == []
