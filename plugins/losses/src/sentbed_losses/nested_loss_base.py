"""The base class of losses that contain other losses: `sum`, `matryoshka` and `flops`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.errors import listed
from sentbed.protocols import LABEL, Loss, LossTraits, Output, inner_parts

VECTORS = frozenset[Output]({"vector", "sparse"})
"""The kinds of encoder outputs that a loss with inner losses can read."""


def _different_classes(losses: Sequence[Loss]) -> Iterator[str]:
    """Yield a problem if losses with labels have different classes."""
    named_classes: list[tuple[str, Sequence[str]]] = []
    for loss in losses:
        named = loss.name, loss.traits.classes
        if LABEL in loss.traits.needs and named not in named_classes:
            named_classes.append(named)

    if len({classes for _, classes in named_classes}) > 1:
        different = "; ".join(
            f"`{name}` has {', '.join(classes)}" for name, classes in named_classes
        )
        yield (
            f"the losses have different `classes`: {different}; give them the same classes in the same order"
        )


class Nested(Loss):
    """A loss that contains losses, and passes its inputs to each of them."""

    __slots__ = ()

    @property
    def traits(self) -> LossTraits:
        """The combined traits of the inner losses."""
        return LossTraits.of(*inner_parts(self, Loss), reads=VECTORS)

    def check(self) -> Iterator[str]:
        """Yield why losses cannot be inner losses of this loss, or cannot be used together."""
        losses = inner_parts(self, Loss)
        for loss in losses:
            # A single inner loss, as in `matryoshka`, may have a moving average.
            if loss.traits.momentum is not None and len(losses) > 1:
                columns = listed(sorted(loss.traits.keys))
                yield (
                    f"a moving average encodes {columns} for the loss `{loss.name}`, without gradient, and the "
                    f"other losses would get the same vectors; train with `{loss.name}` alone, or use `info-nce` "
                    "instead"
                )

        yield from _different_classes(losses)

        for loss in losses:
            for other in losses:
                columns_of_other = other.traits.needs | (
                    other.traits.takes or frozenset()
                )
                texts_of_other = columns_of_other - other.traits.numbers
                for column in sorted(loss.traits.numbers & texts_of_other):
                    yield (
                        f"the column `{column}` holds numbers for the loss `{loss.name}`, and texts for "
                        f"`{other.name}`; take one of them out"
                    )
