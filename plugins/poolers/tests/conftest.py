"""Random token states with the right-padded masks that a tokenizer gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sentbed.protocols import TokenStates


@pytest.fixture
def random_states() -> Callable[..., TokenStates]:
    """Draw states for sentences of these lengths; padded tokens hold garbage, not zeros."""

    def draw(lengths: list[int], width: int = 6, seed: int = 0) -> TokenStates:
        generator = torch.Generator().manual_seed(seed)
        longest = max(lengths)
        hidden = torch.randn(len(lengths), longest, width, generator=generator)
        mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
        return TokenStates(torch.where(mask[:, :, None].bool(), hidden, 1000 * hidden), mask)

    return draw
