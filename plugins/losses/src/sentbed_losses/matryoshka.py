"""The loss `matryoshka`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from attrs.validators import deep_iterable, ge, min_len
from sentbed.errors import RunError
from sentbed.protocols import Loss, LossTraits, Module

from sentbed_losses.nested_loss_base import VECTORS, Nested, inner_module


def _distinct(_: Any, attribute: attrs.Attribute[Any], value: tuple[int, ...]) -> None:
    if len(set(value)) < len(value):
        raise ValueError(f"`{attribute.name}` names a dimension twice; name each once")


@attrs.frozen
class Matryoshka(Nested):
    """Another loss on the first d components of every vector, summed over several d.

    For dimensions d with weights w_d, the loss is the sum of w_d * loss(e[:d] / |e[:d]|): each cut is
    L2-normalised before the inner loss sees it, so that for it a dot product is a cosine. Vectors are usable
    at their full width only if that is among the dimensions. The vectors of a teacher (`gist`, `distill`,
    `similarity-kl`) are not cut.

    Each dimension has an inner loss of its own: weights that it learns, such as a temperature, and its memory
    are not shared.

    Source: Kusupati et al. 2022, equation 1.
    """

    name = "matryoshka"

    loss: Loss
    """The inner loss: `{ use = "info-nce" }`."""
    dimensions: tuple[int, ...] = attrs.field(
        validator=[min_len(1), deep_iterable(ge(1)), _distinct],
    )
    """Numbers of components, each at most the width of a vector: `[384, 256, 128, 64]`."""
    weights: tuple[float, ...] = attrs.field(default=(), validator=deep_iterable(ge(0)))
    """One weight >= 0 for each dimension, in their order; default: 1 each."""

    @property
    def traits(self) -> LossTraits:
        """The traits of the inner loss."""
        cites = ("kusupati2022matryoshka",)
        return LossTraits.of(self.loss, reads=VECTORS, cites=cites)

    def check(self) -> Iterator[str]:
        """Yield what is wrong with these fields together."""
        yield from super().check()
        if self.weights and len(self.weights) != len(self.dimensions):
            yield (
                f"`weights` has {len(self.weights)} number(s) for {len(self.dimensions)} dimension(s); "
                "give one for each dimension, in their order"
            )

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`. Raises `RunError` if a dimension is larger than `width`.

        Metrics: the inner loss at each dimension as its number, and its own metrics as `DIMENSION.METRIC`.
        """
        from sentbed_losses._torch.matryoshka import (
            MatryoshkaLoss,
            StatefulMatryoshkaLoss,
        )

        largest = max(self.dimensions)
        if largest > width:
            raise RunError(
                f"the loss `{self.name}` has the dimension {largest}, more than the {width} of the "
                "vectors; choose `dimensions` of at most their width"
            )

        losses = {size: inner_module(self.loss, size) for size in self.dimensions}
        traits = self.loss.traits
        module = MatryoshkaLoss
        if traits.stateful:
            module = StatefulMatryoshkaLoss

        return module(losses, self.weights, traits)
