"""A loss on the first components of vectors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.errors import RunError
from sentbed.protocols import LossOutput

from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts
from sentbed_losses._torch.similarity import unit
from sentbed_losses.matryoshka import Matryoshka


class MatryoshkaLoss(Parts):
    """See `sentbed_losses.matryoshka.Matryoshka`."""

    def __init__(self, parameters: Matryoshka, width: int) -> None:
        if (largest := max(parameters.dimensions)) > width:
            raise RunError(
                f"the loss `{parameters.name}` has the dimension {largest}, more than the {width} of the "
                "vectors; choose `dimensions` of at most their width"
            )
        parts = {str(size): (parameters.loss, size) for size in parameters.dimensions}
        super().__init__(parts, parameters.weights)
        self.dimensions = parameters.dimensions
        self.whole = parameters.traits.targets

    def forward(
        self, inputs: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the inner loss at each dimension."""
        return self.total([self.cut(inputs, size) for size in self.dimensions], state)

    def cut(self, inputs: Mapping[str, torch.Tensor], size: int) -> dict[str, torch.Tensor]:
        """Return the inputs with the first `size` components of each vector, of length 1."""
        return {
            name: unit(value[:, :size]) if value.ndim == 2 and name not in self.whole else value
            for name, value in inputs.items()
        }


class StatefulMatryoshkaLoss(StatefulParts, MatryoshkaLoss):
    """`MatryoshkaLoss` with the states of the losses in it."""
