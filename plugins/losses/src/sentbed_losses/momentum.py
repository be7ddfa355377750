"""The loss `momentum`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, lt
from sentbed.protocols import LossTraits

from sentbed_losses.contrastive_base import Contrastive
from sentbed_losses.queue import Queue


@attrs.frozen
class Momentum(Queue):
    """`queue` with positives from a moving average of the trained encoder (MoCo).

    Positives are encoded without gradient by a copy of their encoder. After each step its weights become
    w' <- momentum w' + (1 - momentum) w; they change so slowly that the vectors in the memory stay
    comparable. Anchors and hard negatives are encoded by the encoder itself.

    MoCo's own negatives are those of the memory alone: `in_batch = false`.

    Source: He et al. 2020 (MoCo), section 3.2 and algorithm 1.
    """

    name = "momentum"
    papers = ("he2020moco", "oord2018infonce")

    size: int = attrs.field(default=65_536, validator=ge(0))
    """Number of vectors in the memory; 0 is none. 65,536 in MoCo."""
    momentum: float = attrs.field(default=0.999, validator=and_(ge(0), lt(1)))
    """Share of the average that a step keeps, in [0, 1): 0.999 in MoCo."""

    @property
    def traits(self) -> LossTraits:
        """Return the traits of `queue`, with positives encoded by the moving average."""
        return attrs.evolve(
            super().traits, momentum=self.momentum, keys=frozenset({"positive"})
        )

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield what contrastive losses say: the moving average may belong to a tower that is trained."""
        yield from Contrastive.misfits(self, batch_size, fixed)
