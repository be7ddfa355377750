"""The loss `flops`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, le
from sentbed.errors import listed
from sentbed.protocols import Loss, Module

from sentbed_losses.nested_loss_base import Nested


@attrs.frozen
class Flops(Nested):
    """Another loss, and a regulariser that makes vectors sparse: FLOPS of their dot products (SPLADE).

    For the vectors of N texts with components a_ij, FLOPS = sum_j (sum_i |a_ij| / N)^2. The loss is

        inner loss + s * (query_weight * FLOPS(queries) + document_weight * FLOPS(documents))

    where the documents are the texts of all columns except those of the queries and of a teacher. The factor s is
    (p / warmup)^2, but at most 1, with p the share of the stage's steps that have been taken. It is 1 if `warmup`
    is 0.

    Source: Paria et al. 2020, equation 4; Formal et al. 2021 (SPLADE v2), section 2.3.
    """

    name = "flops"
    other_names = (
        "FlopsLoss",
        "SpladeLoss",
        "CachedSpladeLoss",
    )
    cites = ("paria2020flops", "formal2021splade")

    loss: Loss
    """The inner loss: `{ use = "info-nce", similarity = "dot", temperature = 1.0 }`."""
    query_weight: float = attrs.field(default=5e-5, validator=ge(0))
    """Weight of the queries' FLOPS, >= 0."""
    document_weight: float = attrs.field(default=3e-5, validator=ge(0))
    """Weight of the documents' FLOPS, >= 0."""
    query: str = "anchor"
    """Column of the queries."""
    warmup: float = attrs.field(default=1 / 3, validator=and_(ge(0), le(1)))
    """Share of the stage's steps in which both weights grow quadratically from 0, in [0, 1]."""

    def check(self) -> Iterator[str]:
        """Yield the problems of the inner loss, such as columns whose FLOPS would have no gradient."""
        yield from super().check()
        if keys := self.loss.keys:
            yield (
                f"a moving average encodes {listed(sorted(keys))} for the loss `{self.loss.name}`, without "
                "gradient, so that nothing would make these vectors sparse; use `queue` or `info-nce` instead"
            )

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the inner loss, and that of the queries."""
        return super().columns | {self.query}

    @property
    def needs(self) -> frozenset[str]:
        """What the inner loss needs, and the progress of the stage if the weights grow."""
        if self.warmup == 0:
            return super().needs
        return super().needs | {"progress"}

    def build(self, width: int) -> Module:
        """Return the module, which is called as `module(inputs)` and returns a `LossOutput`.

        Its metrics are the value of the inner loss as `NAME`, which is the name of that loss, and the metrics of
        the inner loss as `NAME.METRIC`. `query_flops` and `document_flops` are the regulariser's terms without
        their weights. `query_active` and `document_active` are the mean numbers of a vector's components that are
        not 0.
        """
        from sentbed_losses._torch.flops import FlopsLoss

        return FlopsLoss(
            self.loss,
            self.loss.build(width),
            query=self.query,
            query_weight=self.query_weight,
            document_weight=self.document_weight,
            warmup=self.warmup,
        )
