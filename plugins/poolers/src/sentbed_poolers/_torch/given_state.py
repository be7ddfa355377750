"""Poolers that return a state which the backbone has already selected."""

from __future__ import annotations

from typing import Any

from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class GivenState(nn.Module):
    """A field of `TokenStates` that already holds one vector per sentence, `(batch, width)`."""

    def __init__(self, field: str, pooler: str) -> None:
        super().__init__()
        self.field = field
        self.pooler = pooler

    def forward(self, states: TokenStates) -> Tensor:
        """Return the field."""
        state: Tensor = required(states, self.field, self.pooler)
        return state


def required(states: TokenStates, field: str, pooler: str) -> Any:
    """Return a field of `states`. Raises `ModelError` if the backbone left it out."""
    value = getattr(states, field)
    if value is None:
        raise ModelError(
            f"the backbone gave no `{field}`, which the pooler `{pooler}` reads; "
            "use a backbone that gives it, or another pooler"
        )

    return value
