"""The loss `momentum`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, lt
from sentbed.protocols import StagePlace

from sentbed_losses.contrastive_base import Contrastive
from sentbed_losses.queue import Queue


@attrs.frozen
class Momentum(Queue):
    """`queue` with positives from a moving average of the trained encoder (MoCo).

    Positives are encoded without gradient by a copy of their encoder. After each step, the weights w' of the
    copy become momentum w' + (1 - momentum) w, where w are the weights of the encoder. The copy changes slowly,
    so that the vectors in the memory stay comparable. Anchors and hard negatives are encoded by the encoder
    itself.

    In MoCo, all negatives come from the memory; set `in_batch = false` for this.

    Source: He et al. 2020 (MoCo), section 3.2 and algorithm 1.
    """

    name = "momentum"
    cites = ("he2020moco", "oord2018infonce")

    size: int = attrs.field(default=65_536, validator=ge(0))
    """Number of vectors in the memory. 0 is no memory; 65,536 in MoCo."""
    momentum: float = attrs.field(default=0.999, validator=and_(ge(0), lt(1)))
    """Weight of the old average in each update, in [0, 1): 0.999 in MoCo."""

    keys = frozenset({"positive"})

    def misfits(self, place: StagePlace) -> Iterator[str]:
        """Yield the problems of all contrastive losses. Unlike in `queue`, the encoder of `positive` may be
        trained."""
        yield from Contrastive.misfits(self, place)
