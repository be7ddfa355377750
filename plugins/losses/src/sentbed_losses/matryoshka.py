"""The loss `matryoshka`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from attrs.validators import deep_iterable, ge, min_len
from sentbed.errors import RunError
from sentbed.protocols import Loss, Module

from sentbed_losses.nested_loss_base import Nested


def _distinct(
    _: Any,
    attribute: attrs.Attribute[Any],
    value: tuple[int, ...],
) -> None:
    """Refuse a value that names a dimension twice; an attrs validator."""
    if len(set(value)) < len(value):
        raise ValueError(f"`{attribute.name}` names a dimension twice; name each once")


@attrs.frozen
class Matryoshka(Nested):
    """Another loss on the first d components of every vector, summed over several d.

    For vectors e and dimensions d with weights w_d, the loss is the sum of w_d * loss(e[:d] / |e[:d]|). The inner
    loss gets cut vectors of length 1, whose dot product is their cosine. Vectors are trained at their full width
    only if that is one of the dimensions. The vectors of a teacher (`gist`, `distill`, `similarity-kl`) are not
    cut.

    Each dimension has its own inner loss. So learned weights, such as a temperature, and memories are not shared.

    Source: Kusupati et al. 2022, equation 1.
    """

    name = "matryoshka"
    other_names = ("MatryoshkaLoss",)

    loss: Loss
    """The inner loss: `{ use = "info-nce" }`."""
    dimensions: tuple[int, ...] = attrs.field(
        validator=[min_len(1), deep_iterable(ge(1)), _distinct],
    )
    """Numbers of components, each at most the width of a vector: `[384, 256, 128, 64]`."""
    weights: tuple[float, ...] = attrs.field(default=(), validator=deep_iterable(ge(0)))
    """Weight of the loss at each dimension, >= 0, in the order of `dimensions`; default: 1 each."""

    cites = ("kusupati2022matryoshka",)

    def check(self) -> Iterator[str]:
        """Yield the problems of the inner loss, and of fields that contradict each other."""
        yield from super().check()
        if self.weights and len(self.weights) != len(self.dimensions):
            yield (
                f"`weights` has {len(self.weights)} number(s) for {len(self.dimensions)} dimension(s); "
                "give one for each dimension, in their order"
            )

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metrics are the value of the inner loss at each dimension, as `DIMENSION`, and the metrics of the
        inner loss, as `DIMENSION.METRIC`.

        Raises:
            RunError: if a dimension is larger than `width`.
        """
        from sentbed_losses._torch.matryoshka import MatryoshkaLoss

        largest = max(self.dimensions)
        if largest > width:
            raise RunError(
                f"the loss `{self.name}` has the dimension {largest}, more than the {width} of the "
                "vectors; choose `dimensions` of at most their width"
            )

        return MatryoshkaLoss(self.loss, self.dimensions, self.weights)
