"""The loss `queue`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs
from attrs.validators import ge
from sentbed.protocols import Module, StagePlace

from sentbed_losses.contrastive_base import Contrastive


@attrs.frozen
class Queue(Contrastive):
    """`info-nce` with a memory: past positives of a frozen tower are negatives too.

    The memory has the last `size` positives of earlier batches. For each vector k in it, the term
    exp(s(v_i, k) / t) is added to the denominator of `info-nce`. After each step, the positives of the batch
    replace the oldest vectors. The memory is empty when a stage starts, and is used before it is full. The second
    direction of `symmetric` does not use it.

    `mask_duplicates` also applies to the memory, and is on by default: from the second epoch on, the memory may
    have a row's own positive from the epoch before, and this is not a negative.

    Source: He et al. 2020 (MoCo), section 3; the translation-pair paper, section 4.2, where the source
    language's tower is frozen.
    """

    name = "queue"
    cites = ("he2020moco", "oord2018infonce")

    size: int = attrs.field(default=10_000, validator=ge(0))
    """Number of vectors in the memory. A memory smaller than a batch keeps the last positives of the batch. 0
    is no memory. The translation-pair paper uses 10,000 for base and 200,000 for large models."""
    mask_duplicates: bool = True
    """Whether to leave a candidate, from the batch or the memory, out of a row's denominator if its text equals
    the row's positive or anchor."""
    in_batch: bool = True
    """Whether the other positives and the hard negatives of the batch are negatives, too. If false, all negatives
    come from the memory, as in MoCo. Hard negatives are then not encoded. The first step of a stage then has the
    loss 0, since the memory is empty."""

    counts_negatives: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        if self.in_batch:
            return

        if self.size == 0:
            raise ValueError(
                "`in_batch = false` takes negatives from the memory alone, and `size = 0` is no memory; give "
                "it a `size`, or take `in_batch` out"
            )
        if self.symmetric:
            raise ValueError(
                "`symmetric` ranks the anchors of the batch for each positive, and `in_batch = false` leaves "
                "none to compare with; take one of them out"
            )

    @property
    def needs(self) -> frozenset[str]:
        """What `info-nce` needs, and a state if there is a memory."""
        if self.size == 0:
            return super().needs
        return super().needs | {"state"}

    @property
    def takes(self) -> frozenset[str]:
        """Hard negatives, if they are negatives."""
        if self.in_batch:
            return super().takes
        return frozenset()

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(vectors, state)` and returns a `LossOutput`.

        If `size` is 0, it is called without `state`. It has the metrics of `info-nce`, always including
        `negatives`.
        """
        from sentbed_losses._torch.info_nce import InfoNCELoss
        from sentbed_losses._torch.queue import QueueLoss

        if self.size == 0:
            return InfoNCELoss(self)

        return QueueLoss(self, width, self.size)

    def misfits(self, place: StagePlace) -> Iterator[str]:
        """Yield why the memory cannot be used in a stage."""
        yield from super().misfits(place)
        if self.size and "positive" not in place.fixed:
            yield (
                f"the loss `{self.name}` remembers the positives of earlier steps, but this stage trains the "
                "encoder that they come from, and old vectors go stale; freeze the encoder of `positive`, "
                "use the loss `momentum`, or set `size = 0` for no memory"
            )
