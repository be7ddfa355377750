"""The base class of losses that contain losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed.helpers import returned
from sentbed.protocols import LABEL, Loss, LossTraits, Module, Output, inner_parts

VECTORS = frozenset[Output]({"vector", "sparse"})
"""Outputs of encoders that losses within losses read."""


def inner_module(loss: Loss, width: int) -> Module:
    """Return the module of a loss within another, for vectors of `width`.

    Raises:
        PluginError: if it builds anything else than a module.
    """
    import torch

    return returned(loss.build(width), torch.nn.Module, loss, "build")


def conflicts(losses: Sequence[Loss]) -> Iterator[str]:
    """Yield why losses cannot be part of another, or several share their inputs."""
    for loss in losses:
        if loss.traits.predicts:
            yield (
                f"the loss `{loss.name}` predicts tokens, and a loss that contains losses gives them "
                f"sentence vectors; train with `{loss.name}` in a stage of its own"
            )
        if loss.traits.momentum is not None and len(losses) > 1:
            yield (
                f"the loss `{loss.name}` has a moving average encode {_listed(loss.traits.keys)}, without "
                "gradient, and the other losses of the sum would be given those vectors; train with "
                f"`{loss.name}` alone, or take `info-nce` for it"
            )

    classes = dict.fromkeys(
        (loss.name, loss.traits.classes)
        for loss in losses
        if LABEL in loss.traits.needs
    )
    if len({names for _, names in classes}) > 1:
        each = "; ".join(f"`{name}` has {', '.join(names)}" for name, names in classes)
        yield f"the losses have different `classes`: {each}; give them the same, in one order"

    for loss in losses:
        for other in losses:
            taken = other.traits.needs | (other.traits.takes or frozenset())
            for column in sorted(loss.traits.numbers & taken - other.traits.numbers):
                yield (
                    f"the column `{column}` holds numbers for the loss `{loss.name}`, and texts for "
                    f"`{other.name}`; take one of them out"
                )


def _listed(columns: frozenset[str]) -> str:
    return ", ".join(f"`{column}`" for column in sorted(columns))


class Nested(Loss):
    """A loss that contains losses and gives each of them the columns that it is given itself."""

    __slots__ = ()

    @property
    def traits(self) -> LossTraits:
        """The traits of the losses together."""
        return LossTraits.of(*inner_parts(self, Loss), reads=VECTORS)

    def check(self) -> Iterator[str]:
        """Yield why the losses cannot share their inputs."""
        yield from conflicts(inner_parts(self, Loss))
