"""The module of the loss `matryoshka`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sentbed.protocols import Loss, LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts
from sentbed_losses._torch.similarity import unit


class MatryoshkaLoss(Parts):
    """The loss `matryoshka`; see `sentbed_losses.matryoshka.Matryoshka`.

    `modules` has the module of the inner `loss` for each dimension.
    """

    def __init__(
        self,
        modules: Mapping[int, nn.Module],
        weights: Sequence[float],
        loss: Loss,
    ) -> None:
        named = {str(size): module for size, module in modules.items()}
        super().__init__(named, weights, [loss] * len(modules))
        self.dimensions = tuple(modules)
        self.targets = loss.targets

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the inner loss at each dimension."""
        return self.total([self.cut(inputs, size) for size in self.dimensions], state)

    def cut(self, inputs: Columns, size: int) -> dict[str, Tensor]:
        """Return the inputs with each vector cut to `size` components and normalised to length 1.

        Columns of a teacher are not cut.
        """
        columns = dict(inputs)
        for name, value in inputs.items():
            if value.ndim == 2 and name not in self.targets:
                columns[name] = unit(value[:, :size])

        return columns


class StatefulMatryoshkaLoss(StatefulParts, MatryoshkaLoss):
    """`MatryoshkaLoss` around losses that have a state."""
