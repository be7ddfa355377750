"""A loss on the first components of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentbed.protocols import LossOutput, LossTraits
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts
from sentbed_losses._torch.similarity import unit


class MatryoshkaLoss(Parts):
    """See `sentbed_losses.matryoshka.Matryoshka`.

    `losses` has a loss for each dimension, all with the same `traits`; columns of a teacher are not cut.
    """

    def __init__(
        self,
        losses: Mapping[int, nn.Module],
        weights: Sequence[float],
        traits: LossTraits,
    ) -> None:
        named = {str(size): loss for size, loss in losses.items()}
        super().__init__(named, weights, [traits] * len(losses))
        self.dimensions = tuple(losses)
        self.targets = traits.targets

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the inner loss at each dimension."""
        return self.total([self.cut(inputs, size) for size in self.dimensions], state)

    def cut(self, inputs: Columns, size: int) -> dict[str, Tensor]:
        """Return the inputs with the first `size` components of each vector, of length 1."""
        columns = dict(inputs)
        for name, value in inputs.items():
            if value.ndim == 2 and name not in self.targets:
                columns[name] = unit(value[:, :size])

        return columns


class StatefulMatryoshkaLoss(StatefulParts, MatryoshkaLoss):
    """`MatryoshkaLoss` with the states of the losses in it."""
