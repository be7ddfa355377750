"""The base class of losses that contain losses, and the traits of several losses together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from sentbed.helpers import returned
from sentbed.protocols import LABEL, Loss, LossTraits, Module, Output, Similarity

VECTORS: tuple[Output, ...] = ("vector", "sparse")
"""Outputs of encoders that losses within losses read."""


def combined(losses: Sequence[Loss], *cites: str) -> LossTraits:
    """Return the traits of a loss that gives each of `losses` the columns that it is given itself."""
    whole = LossTraits(
        cites=cites,
        needs=frozenset(),
        takes=frozenset(),
        reads=frozenset[Output](VECTORS),
    )
    for loss in losses:
        whole = _joined(whole, loss.traits)
    if whole.takes is None:
        return whole
    return attrs.evolve(whole, takes=whole.takes - whole.needs)


def _joined(first: LossTraits, second: LossTraits) -> LossTraits:
    """Return the traits of two losses together; where only one can have its way, those of the first."""
    takes: frozenset[str] | None = None
    if first.takes is not None and second.takes is not None:
        takes = first.takes | second.takes
    momentum = first.momentum
    if momentum is None:
        momentum = second.momentum
    return LossTraits(
        cites=tuple(dict.fromkeys(first.cites + second.cites)),
        needs=first.needs | second.needs,
        takes=takes,
        classes=first.classes or second.classes,
        numbers=first.numbers | second.numbers,
        compares_texts=first.compares_texts or second.compares_texts,
        momentum=momentum,
        scheduled=first.scheduled or second.scheduled,
        stateful=first.stateful or second.stateful,
        keys=first.keys | second.keys,
        targets=first.targets | second.targets,
        reads=first.reads & second.reads,
    )


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


@attrs.frozen
class Nested(Loss):
    """A loss that contains losses and gives each of them the columns that it is given itself."""

    @property
    def inner(self) -> tuple[Loss, ...]:
        """The losses that it contains."""
        raise NotImplementedError

    @property
    def traits(self) -> LossTraits:
        """The traits of the losses together."""
        return combined(self.inner)

    def with_inner(self, losses: Sequence[Loss]) -> Loss:
        """Return the loss with others in the place of those that it contains, in their order."""
        raise NotImplementedError

    def compared_by(self, similarity: Similarity) -> Loss:
        """Return the loss whose losses have this similarity."""
        losses = []
        for loss in self.inner:
            compared = loss.compared_by(similarity)
            losses.append(returned(compared, Loss, loss, "compared_by"))
        return self.with_inner(losses)

    def check(self) -> Iterator[str]:
        """Yield why the losses cannot share their inputs."""
        yield from conflicts(self.inner)

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield what the losses say about such batches."""
        for loss in self.inner:
            yield from loss.misfits(batch_size, fixed)

    def without_effect(self, rows: int) -> Iterator[str]:
        """Yield what the losses say about so many rows."""
        for loss in self.inner:
            yield from loss.without_effect(rows)

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int | None:
        """Return the most that one of the losses has; None if one does not know."""
        counts = []
        for loss in self.inner:
            count = loss.negatives(batch_size, columns)
            if count is None:
                return None
            counts.append(count)
        return max(counts)
