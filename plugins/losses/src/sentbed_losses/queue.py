"""The loss `queue`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import ge
from sentbed.protocols import LossTraits, Module

from sentbed_losses.contrastive_base import Contrastive


@attrs.frozen
class Queue(Contrastive):
    """`info-nce` with a memory: past positives of a frozen tower are negatives too.

    The denominator of `info-nce` gains exp(s(v_i, k) / t) for every vector k in a first-in-first-out memory
    of the latest `size` positives of earlier batches. A step sees the memory that the previous batch left;
    then the batch's positives replace the oldest ones. The memory is empty when a stage starts, and until
    it is full, the denominator holds what is there. The other direction of a symmetric loss does not use
    it.

    The masks apply to the memory as to other rows. `mask_duplicates` is on by default, unlike that of
    `info-nce`: from the second epoch on, a memory holds a row's own positive from the epoch before, which is
    no negative, with certainty where it has as many places as there are rows.

    Source: He et al. 2020 (MoCo), section 3; the translation-pair paper, section 4.2, where the source
    language's tower is frozen.
    """

    name = "queue"
    papers = ("he2020moco", "oord2018infonce")

    size: int = attrs.field(default=10_000, validator=ge(0))
    """Number of vectors in the memory; one that is smaller than a batch keeps its last. 0 is none. 10,000 for
    base and 200,000 for large models in the translation-pair paper."""
    mask_duplicates: bool = True
    """Leave a candidate, of the batch or the memory, out of a row's denominator if its text equals the row's
    positive or anchor."""
    in_batch: bool = True
    """Whether the other positives and the hard negatives of the batch are negatives too. Off, negatives come
    from the memory alone, as in MoCo: hard negatives are not encoded, and the first step of a stage, which
    has no memory yet, has loss 0."""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with these fields together."""
        if self.in_batch:
            return

        if self.size == 0:
            yield (
                "`in_batch = false` takes negatives from the memory alone, and `size = 0` is no memory; give "
                "it a `size`, or take `in_batch` out"
            )
        if self.symmetric:
            yield (
                "`symmetric` ranks the anchors of the batch for each positive, and `in_batch = false` leaves "
                "none to compare with; take one of them out"
            )

    @property
    def traits(self) -> LossTraits:
        """Return the traits of `info-nce`, with the memory as state."""
        traits = attrs.evolve(super().traits, stateful=self.size > 0)
        if self.in_batch:
            return traits

        return attrs.evolve(traits, takes=frozenset())

    def build(self, width: int) -> Module:
        """Return `module(vectors, state) -> LossOutput`, without `state` if `size` is 0.

        Metrics: those of `info-nce`, and always `negatives`.
        """
        from sentbed_losses._torch.info_nce import InfoNCELoss
        from sentbed_losses._torch.queue import QueueLoss

        if self.size == 0:
            return InfoNCELoss(**self.module_arguments(), counts_negatives=True)

        return QueueLoss(
            **self.module_arguments(),
            width=width,
            size=self.size,
            in_batch=self.in_batch,
        )

    def misfits(self, batch_size: int, fixed: frozenset[str]) -> Iterator[str]:
        """Yield why the memory cannot work in a stage with these batches and these `fixed` columns."""
        yield from super().misfits(batch_size, fixed)
        if self.size and "positive" not in fixed:
            yield (
                f"the loss `{self.name}` remembers the positives of earlier steps, but this stage trains the "
                "encoder that they come from, and old vectors go stale; freeze the encoder of `positive`, "
                "use the loss `momentum`, or set `size = 0` for no memory"
            )

    def without_effect(self, rows: int) -> Iterator[str]:
        """Yield that the memory never fills, if all epochs together have fewer rows than it has places."""
        if rows < self.size:
            yield (
                f"the memory of the loss `{self.name}` has {self.size:,} places and sees {rows:,} positives "
                f"in all, so that it never fills: any `size` of {rows:,} or more trains alike"
            )

    def negatives(self, batch_size: int, columns: frozenset[str]) -> int:
        """Return the largest number of negatives in a denominator, memory included."""
        in_batch = 0
        if self.in_batch:
            in_batch = super().negatives(batch_size, columns)

        return in_batch + self.size
