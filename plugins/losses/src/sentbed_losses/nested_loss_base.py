"""The base class of losses that contain other losses: `sum`, `matryoshka` and `flops`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sentbed.errors import listed
from sentbed.protocols import LABEL, Loss, Output, inner_parts

VECTORS = frozenset[Output]({"vector", "sparse"})
"""The kinds of encoder outputs that a loss with inner losses can read."""


def _different_classes(losses: Sequence[Loss]) -> Iterator[str]:
    """Yield a problem if losses with labels have different classes."""
    named_classes: list[tuple[str, Sequence[str]]] = []
    for loss in losses:
        named = loss.name, loss.classes
        if LABEL in loss.columns and named not in named_classes:
            named_classes.append(named)

    if len({classes for _, classes in named_classes}) > 1:
        different = "; ".join(
            f"`{name}` has {', '.join(classes)}" for name, classes in named_classes
        )
        yield (
            f"the losses have different `classes`: {different}; give them the same classes in the same order"
        )


def _union(columns: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the union of sets."""
    return frozenset[str]().union(*columns)


class Nested(Loss):
    """A loss that contains losses, and passes its inputs to each of them."""

    __slots__ = ()

    reads = VECTORS

    @property
    def columns(self) -> frozenset[str]:
        """All columns that an inner loss needs."""
        return _union(loss.columns for loss in inner_parts(self, Loss))

    @property
    def takes(self) -> frozenset[str] | None:
        """All further columns that an inner loss takes."""
        taken: frozenset[str] = frozenset()
        for loss in inner_parts(self, Loss):
            if loss.takes is None:
                return None
            taken |= loss.takes
        return taken - self.columns

    @property
    def numbers(self) -> frozenset[str]:
        """The columns that hold numbers for an inner loss."""
        return _union(loss.numbers for loss in inner_parts(self, Loss))

    @property
    def targets(self) -> frozenset[str]:
        """The columns that a teacher encodes for an inner loss."""
        return _union(loss.targets for loss in inner_parts(self, Loss))

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the inner losses that have some, which are the same."""
        for loss in inner_parts(self, Loss):
            if loss.classes:
                return loss.classes
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """All that an inner loss needs."""
        return _union(loss.needs for loss in inner_parts(self, Loss))

    def check(self) -> Iterator[str]:
        """Yield why losses cannot be inner losses of this loss, or cannot be used together."""
        losses = inner_parts(self, Loss)
        for loss in losses:
            # A single inner loss, as in `matryoshka`, may have a moving average.
            if loss.momentum is not None and len(losses) > 1:
                columns = listed(sorted(loss.keys))
                yield (
                    f"a moving average encodes {columns} for the loss `{loss.name}`, without gradient, and the "
                    f"other losses would get the same vectors; train with `{loss.name}` alone, or use `info-nce` "
                    "instead"
                )

        yield from _different_classes(losses)

        for loss in losses:
            for other in losses:
                columns_of_other = other.columns | (other.takes or frozenset())
                texts_of_other = columns_of_other - other.numbers
                for column in sorted(loss.numbers & texts_of_other):
                    yield (
                        f"the column `{column}` holds numbers for the loss `{loss.name}`, and texts for "
                        f"`{other.name}`; take one of them out"
                    )
