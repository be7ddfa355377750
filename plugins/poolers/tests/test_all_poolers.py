"""What holds for every pooler beside the rules of the kit, which `test_conformance.py` runs."""

from __future__ import annotations

import pytest
import torch
from sentbed.protocols import TokenStates
from sentbed_poolers import poolers
from sentbed_poolers.cls_mlp import ClsMLP
from sentbed_poolers.mean_first_last import MeanFirstLast
from sentbed_testing import offered

LENGTHS = [7, 2, 4, 1, 9]


def poolers_of_tokens():
    """Return the poolers that make a vector of all tokens, with their defaults and in other forms."""
    defaults = []
    for cls in offered(poolers()):
        pooler = cls()
        reads_one_place = pooler.needs & {"decoder", "mask-token"}
        if pooler.output != "tokens" and not reads_one_place:
            defaults.append(pooler)
    other_forms = [
        ClsMLP(mlp_only_train=True),
        MeanFirstLast(first="layer-1"),
    ]
    return defaults + other_forms


OF_THE_TOKENS = poolers_of_tokens()


@pytest.mark.parametrize("pooler", OF_THE_TOKENS, ids=str)
def test_a_mask_of_booleans_is_one_of_ones_and_zeros(random_states, pooler):
    states = random_states(LENGTHS, layers=3, side="left")
    module = pooler.build(6)
    assert torch.equal(
        module(states._replace(attention_mask=states.attention_mask.bool())),
        module(states),
    )


@pytest.mark.sweep(4)
@pytest.mark.parametrize("pooler", OF_THE_TOKENS, ids=str)
def test_a_trace_of_one_batch_pools_another(random_states, pooler):
    """Tracing runs the module without data: a branch or a shape that depends on it would fail."""
    module = pooler.build(6)
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = (TokenStates(free, free, (free,) * 4),)
    traced = torch.export.export(
        module, (random_states(LENGTHS, layers=3),), dynamic_shapes=shapes
    ).module()
    for lengths in ([3, 9, 1, 5, 2], [4, 12]):
        other = random_states(lengths, layers=3, side="left", seed=1)
        torch.testing.assert_close(traced(other), module(other), rtol=0, atol=1e-6)
