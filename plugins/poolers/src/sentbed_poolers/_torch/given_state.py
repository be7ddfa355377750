"""The module of poolers whose state the backbone selects: `mask` and `decoder`."""

from __future__ import annotations

from typing import Any

from sentbed import ModelError
from sentbed.protocols import TokenStates
from torch import Tensor, nn


class GivenState(nn.Module):
    """Returns a field of `TokenStates` that has one state per text, `(batch, width)`.

    `pooler` is the name of the pooler, for messages.
    """

    def __init__(self, field: str, pooler: str) -> None:
        super().__init__()
        self.field = field
        self.pooler = pooler

    def forward(self, states: TokenStates) -> Tensor:
        """Return the states in the field. Raises `ModelError` if the backbone left it out."""
        state: Tensor = required(states, self.field, self.pooler)
        return state


def required(
    states: TokenStates,
    field: str,
    pooler: str,
) -> Any:
    """Return a field of `states` that the pooler needs. Raises `ModelError` if the backbone left it out."""
    value = getattr(states, field)
    if value is None:
        raise ModelError(
            f"the backbone gave no `{field}`, which the pooler `{pooler}` reads; "
            "use a backbone that gives it, or another pooler"
        )

    return value
