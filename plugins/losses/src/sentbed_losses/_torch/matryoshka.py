"""The module of the loss `matryoshka`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentbed.protocols import Loss, LossOutput
from torch import Tensor

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import Parts
from sentbed_losses._torch.similarity import unit


class MatryoshkaLoss(Parts):
    """The loss `matryoshka`; see `sentbed_losses.matryoshka.Matryoshka`."""

    def __init__(
        self,
        loss: Loss,
        dimensions: Sequence[int],
        weights: Sequence[float],
    ) -> None:
        losses = {str(size): loss for size in dimensions}
        super().__init__(losses, [loss.build(size) for size in dimensions], weights)
        self.dimensions = tuple(dimensions)
        self.targets = loss.targets

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the inner loss at each dimension."""
        cuts = [self.cut(inputs, size) for size in self.dimensions]
        return self.total(cuts, state)

    def cut(self, inputs: Columns, size: int) -> dict[str, Tensor]:
        """Return the inputs with each vector cut to `size` components and normalised to length 1.

        Columns of a teacher are not cut.
        """
        columns = dict(inputs)
        for name, value in inputs.items():
            if value.ndim == 2 and name not in self.targets:
                columns[name] = unit(value[:, :size])

        return columns
