"""The replacement of token prepending."""

from __future__ import annotations

import torch
from sentbed.protocols import BlockStates
from torch import Tensor


def prepend(seen: BlockStates) -> Tensor:
    """Return the states with the last token's state also in the placeholder's place."""
    assert seen.placeholder is not None
    states = seen.states
    rows, places = (
        torch.arange(size, device=states.device) for size in states.shape[:2]
    )
    is_placeholder = places == seen.placeholder[:, None]
    return torch.where(
        is_placeholder[..., None], states[rows, seen.last][:, None], states
    )
