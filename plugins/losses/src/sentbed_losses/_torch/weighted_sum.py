"""Weighted sums of losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import torch
from sentbed.protocols import LossOutput

from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts


class WeightedSumLoss(Parts):
    """See `sentbed_losses.weighted_sum.WeightedSum`.

    For each loss in turn, `columns` has the columns that it takes, None if it takes all, and
    `compares_texts` whether it takes the ids of their texts.
    """

    def __init__(
        self,
        losses: Mapping[str, torch.nn.Module],
        weights: Sequence[float],
        columns: Sequence[Collection[str] | None],
        compares_texts: Sequence[bool],
    ) -> None:
        super().__init__(losses, weights)
        self.columns = columns
        self.compares_texts = compares_texts

    def forward(
        self,
        inputs: Mapping[str, torch.Tensor],
        state: Mapping[str, torch.Tensor] | None = None,
    ) -> LossOutput:
        """Return the weighted sum of the losses, each over the columns that it takes."""
        parts = zip(self.columns, self.compares_texts, strict=True)
        return self.total(
            [_select(inputs, columns, with_ids) for columns, with_ids in parts], state
        )


def _select(
    inputs: Mapping[str, torch.Tensor], columns: Collection[str] | None, with_ids: bool
) -> dict[str, torch.Tensor]:
    """Return the inputs that a loss would have alone: these columns or all, and perhaps the ids of texts."""
    selected = {}
    for name, value in inputs.items():
        column = name.removesuffix(".id")
        is_id = column != name
        if (columns is None or column in columns) and (with_ids or not is_id):
            selected[name] = value
    return selected


class StatefulWeightedSumLoss(StatefulParts, WeightedSumLoss):
    """`WeightedSumLoss` with the states of the losses in it."""
