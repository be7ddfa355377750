"""Weighted sums of losses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sentbed.protocols import PROGRESS, LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts


class WeightedSumLoss(Parts):
    """See `sentbed_losses.weighted_sum.WeightedSum`.

    For each loss in turn, `columns` has the columns that it takes, None if it takes all, `compares_texts`
    whether it takes the ids of their texts, and `scheduled` whether it takes the stage's progress.
    """

    def __init__(
        self,
        losses: Mapping[str, nn.Module],
        weights: Sequence[float],
        columns: Sequence[Collection[str] | None],
        compares_texts: Sequence[bool],
        scheduled: Sequence[bool],
    ) -> None:
        super().__init__(losses, weights)
        self.columns = columns
        self.compares_texts = compares_texts
        self.scheduled = scheduled

    def forward(
        self,
        inputs: Columns,
        state: Mapping[str, Tensor] | None = None,
    ) -> LossOutput:
        """Return the weighted sum of the losses, each over the columns that it takes."""
        inputs_of_losses = []
        for columns, with_ids, with_progress in zip(
            self.columns, self.compares_texts, self.scheduled, strict=True
        ):
            selected = _select(inputs, columns, with_ids)
            if with_progress:
                selected[PROGRESS] = inputs[PROGRESS]
            inputs_of_losses.append(selected)
        return self.total(inputs_of_losses, state)


def _select(
    inputs: Columns, columns: Collection[str] | None, with_ids: bool
) -> dict[str, Tensor]:
    """Return the inputs that a loss would have alone: these columns or all, and perhaps the ids of texts."""
    selected = {}
    for name, value in inputs.items():
        if name == PROGRESS:
            continue
        column = name.removesuffix(".id")
        is_id = column != name
        if (columns is None or column in columns) and (with_ids or not is_id):
            selected[name] = value
    return selected


class StatefulWeightedSumLoss(StatefulParts, WeightedSumLoss):
    """`WeightedSumLoss` with the states of the losses in it."""
