"""The computation of token prepending."""

from __future__ import annotations

import torch
from sentbed.protocols import BlockStates
from torch import Tensor


def prepend(seen: BlockStates) -> Tensor:
    """Return the states, with the placeholder's state replaced by the last token's."""
    assert seen.placeholder is not None
    states = seen.states
    rows = torch.arange(states.shape[0], device=states.device)
    places = torch.arange(states.shape[1], device=states.device)

    is_placeholder = places == seen.placeholder[:, None]
    last_states = states[rows, seen.last]
    return torch.where(is_placeholder[..., None], last_states[:, None], states)
