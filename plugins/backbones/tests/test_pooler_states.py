from __future__ import annotations

import pytest
import torch
from sentbed import ModelError
from sentbed.protocols import TokenStates
from sentbed_backbones._torch.pooler_states import PoolerStates

IDS = torch.tensor([[7, 8, 9, 10], [11, 12, 3, 3]])
MASK = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])


class Given(torch.nn.Module):
    """Fixed states of three layers: each token's id plus 100 x the layer."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.dtype = dtype

    def forward(self, ids, mask):
        ids = ids[..., None]
        first = (ids + 0.0).to(self.dtype)
        second = (ids + 100.0).to(self.dtype)
        third = (ids + 200.0).to(self.dtype)
        return TokenStates(third, mask, (first, second, third))


def test_layers_in_half_precision_are_averaged_in_fp32():
    # 4097 is no bf16 number, nor is the sum of 4096 and 2.
    class Halves(torch.nn.Module):
        def forward(self, ids, mask):
            large = torch.full((1, 1, 1), 4096.0, dtype=torch.bfloat16)
            small = torch.full((1, 1, 1), 2.0, dtype=torch.bfloat16)
            return TokenStates(small, mask, (large, small))

    states = PoolerStates(Halves(), (0, 1), False, None)(torch.tensor([[1]]), None)
    assert states.last_hidden_state.item() == 2049


def test_the_mask_state_is_that_of_the_last_mask_token():
    ids = torch.tensor(
        [
            [1, 50, 3, 50, 5, 0],
            [50, 2, 3, 4, 5, 6],
            [0, 0, 1, 2, 3, 50],
        ]
    )
    mask = torch.tensor(
        [
            [1, 1, 1, 1, 1, 0],
            [1, 1, 1, 1, 1, 1],
            [0, 0, 1, 1, 1, 1],
        ]
    )
    # The place is written into the states, so that they tell which was taken.
    place = torch.arange(6.0)[None, :, None].expand(3, -1, 2)

    class Places(torch.nn.Module):
        def forward(self, ids, mask):
            return TokenStates(place, mask)

    states = PoolerStates(Places(), (-1,), False, 50)(ids, mask)
    assert states.mask_state is not None
    assert states.mask_state.tolist() == [[3, 3], [0, 0], [5, 5]]


def test_hidden_tokens_are_left_out_of_the_mask_and_change_no_state():
    ids, mask = IDS, MASK
    hidden = torch.zeros_like(ids, dtype=torch.bool)
    hidden[:, 0] = True
    read = PoolerStates(Given(), (-1,), False, None, hides=True)
    states = read(ids, mask, hidden=hidden)
    torch.testing.assert_close(states.last_hidden_state, ids[..., None] + 200.0)
    assert states.attention_mask is not None
    assert torch.equal(states.attention_mask, mask * ~hidden)
    whole = read(ids, None, hidden=hidden).attention_mask
    assert whole is not None
    assert torch.equal(whole, (~hidden).long())


def test_an_engine_that_drops_the_hidden_tokens_of_a_batch_is_an_error():
    read = PoolerStates(Given(), (-1,), False, None, hides=True)
    with pytest.raises(ModelError, match="without `hidden`; an engine hands over"):
        read(IDS, MASK)
