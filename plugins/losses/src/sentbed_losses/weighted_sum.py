"""The loss `sum`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs
from attrs.validators import deep_iterable, ge, min_len
from sentbed.protocols import Loss, Module

from sentbed_losses.nested_loss_base import Nested


@attrs.frozen
class WeightedSum(Nested):
    """A weighted sum of losses over the same batch.

    Each loss gets only the columns that it takes. Each loss with a memory has its own memory. A loss with a
    moving average (`momentum`) cannot be combined with others.
    """

    name = "sum"

    losses: tuple[Loss, ...] = attrs.field(validator=min_len(1))
    """The losses: `[{ use = "info-nce" }, { use = "spread-out" }]`."""
    weights: tuple[float, ...] = attrs.field(default=(), validator=deep_iterable(ge(0)))
    """Weight of each loss, >= 0, in the order of `losses`; default: 1 each."""

    def check(self) -> Iterator[str]:
        """Yield why the losses cannot be added, or the weights do not fit them."""
        yield from super().check()
        if self.weights and len(self.weights) != len(self.losses):
            yield (
                f"`weights` has {len(self.weights)} number(s) for {len(self.losses)} loss(es); "
                "give one for each loss, in their order"
            )

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metrics are the unweighted value of each loss as `NAME`, which is the name of that loss, and the
        metrics of each loss as `NAME.METRIC`. The second loss with the same name is `NAME-2`.
        """
        from sentbed_losses._torch.nested_loss_base import Parts

        seen: Counter[str] = Counter()
        losses: dict[str, Loss] = {}
        for loss in self.losses:
            seen[loss.name] += 1
            name = loss.name
            if seen[name] > 1:
                name = f"{name}-{seen[name]}"

            losses[name] = loss

        modules = [loss.build(width) for loss in self.losses]
        return Parts(losses, modules, self.weights)
