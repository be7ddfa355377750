"""Weighted sums of losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import torch
from sentbed.protocols import Loss, LossOutput, LossTraits

from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts
from sentbed_losses.weighted_sum import WeightedSum


class WeightedSumLoss(Parts):
    """See `sentbed_losses.weighted_sum.WeightedSum`."""

    def __init__(self, parameters: WeightedSum, width: int) -> None:
        seen: Counter[str] = Counter()
        parts: dict[str, tuple[Loss, int]] = {}
        for loss in parameters.losses:
            seen[loss.name] += 1
            number = seen[loss.name]
            parts[loss.name if number == 1 else f"{loss.name}-{number}"] = loss, width
        super().__init__(parts, parameters.weights)
        self.traits = [loss.traits for loss in parameters.losses]

    def forward(
        self, inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the losses, each over the columns that it takes."""
        return self.total([_taken(inputs, traits) for traits in self.traits], state)


def _taken(inputs: Mapping[str, torch.Tensor], traits: LossTraits) -> dict[str, torch.Tensor]:
    """Return the columns that a loss would be given alone."""
    ids = {name for name in inputs if name.endswith(".id")}
    columns = inputs.keys() - ids
    if traits.takes is not None:
        columns &= traits.needs | traits.takes
    wanted = columns | ({f"{name}.id" for name in columns} & ids if traits.compares_texts else set())
    return {name: value for name, value in inputs.items() if name in wanted}


class StatefulWeightedSumLoss(StatefulParts, WeightedSumLoss):
    """`WeightedSumLoss` with the states of the losses in it."""
