"""`decoder` and `mask`: states that the backbone picks out itself."""

from __future__ import annotations

import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from sentbed_poolers.decoder import Decoder
from sentbed_poolers.mask import Mask
from sentbed_poolers.mean_first_last import MeanFirstLast


@pytest.mark.parametrize(
    ("pooler", "field"), [(Decoder(), "decoder_state"), (Mask(), "mask_state")], ids=str
)
def test_the_vector_is_the_given_state_and_the_gradient_goes_to_it_alone(
    random_states, pooler, field
):
    hidden = random_states([5, 2, 1]).last_hidden_state.requires_grad_()
    states = {
        name: torch.randn(3, 6, requires_grad=True)
        for name in ("decoder_state", "mask_state")
    }
    vectors = pooler.build(6)(TokenStates(hidden, None, **states))
    assert torch.equal(vectors, states[field])
    weight = torch.randn(3, 6)
    (vectors * weight).sum().backward()
    assert torch.equal(states.pop(field).grad, weight)
    assert hidden.grad is None
    for state in states.values():
        assert state.grad is None


@pytest.mark.parametrize(
    ("pooler", "field"),
    [(Decoder(), "decoder_state"), (Mask(), "mask_state"), (MeanFirstLast(), "layers")],
    ids=str,
)
def test_a_backbone_that_leaves_the_state_out_is_an_error(random_states, pooler, field):
    with pytest.raises(ModelError) as caught:
        pooler.build(6)(random_states([5, 2]))
    assert str(caught.value) == (
        f"the backbone gave no `{field}`, which the pooler `{pooler.name}` reads; "
        "use a backbone that gives it, or another pooler"
    )


def test_the_prompt_of_mask_is_that_of_promptbert():
    resolved = Mask().prompt.resolve()
    assert resolved is not None
    expected = 'This sentence of "It rains." means[MASK].'
    assert resolved.apply("It rains", mask_token="[MASK]") == expected
