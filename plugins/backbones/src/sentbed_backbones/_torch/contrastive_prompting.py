"""The computation of contrastive prompting."""

from __future__ import annotations

import torch
from sentbed.protocols import BlockStates
from torch import Tensor


def contrast(seen: BlockStates, scale: float | None) -> Tensor:
    """Return the states; the last token's is replaced by its difference to the auxiliary prompt's last state.

    The auxiliary prompt is a second prompt around the same text. The difference is multiplied by `scale`. If
    `scale` is None, the difference is rescaled to the norm of the state that it replaces.
    """
    assert seen.auxiliary is not None
    states = seen.states
    rows = torch.arange(states.shape[0], device=states.device)
    places = torch.arange(states.shape[1], device=states.device)

    last_states = states[rows, seen.last].float()
    steered = last_states - seen.auxiliary.float()
    if scale is None:
        # The paper's released code adds this small number too.
        norm = last_states.norm(dim=-1, keepdim=True)
        factor = norm / (steered.norm(dim=-1, keepdim=True) + 1e-7)
    else:
        factor = torch.tensor(scale, device=states.device)

    is_last = places == seen.last[:, None]
    steered = (steered * factor).to(states.dtype)
    return torch.where(is_last[..., None], steered[:, None], states)
