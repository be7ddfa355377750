"""The loss `sum`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs
from attrs.validators import deep_iterable, ge, min_len
from sentbed.protocols import Loss, Module

from sentbed_losses.nested_loss_base import Nested, inner_module


@attrs.frozen
class WeightedSum(Nested):
    """A weighted sum of losses over the same batch.

    Each loss is given the columns that it takes. A loss with a memory keeps its own; one with a moving
    average (`momentum`) can only be alone in a sum.
    """

    name = "sum"

    losses: tuple[Loss, ...] = attrs.field(validator=min_len(1))
    """The losses: `[{ use = "info-nce" }, { use = "spread-out" }]`."""
    weights: tuple[float, ...] = attrs.field(default=(), validator=deep_iterable(ge(0)))
    """One weight >= 0 for each loss, in their order; default: 1 each."""

    def check(self) -> Iterator[str]:
        """Yield why the losses cannot be added."""
        yield from super().check()
        if self.weights and len(self.weights) != len(self.losses):
            yield (
                f"`weights` has {len(self.weights)} number(s) for {len(self.losses)} loss(es); "
                "give one for each loss, in their order"
            )

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`.

        Metrics: the unweighted value of each loss as `NAME`, and the loss's own metrics as `NAME.METRIC`. The
        second loss with the same name is `NAME-2`.
        """
        from sentbed_losses._torch.nested_loss_base import Parts, StatefulParts

        seen: Counter[str] = Counter()
        losses: dict[str, Module] = {}
        for loss in self.losses:
            seen[loss.name] += 1
            name = loss.name
            if seen[name] > 1:
                name = f"{name}-{seen[name]}"

            losses[name] = inner_module(loss, width)

        module = Parts
        if self.traits.stateful:
            module = StatefulParts

        return module(losses, self.weights, [loss.traits for loss in self.losses])
