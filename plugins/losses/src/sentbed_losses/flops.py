"""The loss `flops`."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from attrs.validators import and_, ge, le
from sentbed.errors import listed
from sentbed.protocols import Loss, LossTraits, Module

from sentbed_losses.nested_loss_base import VECTORS, Nested, inner_module


@attrs.frozen
class Flops(Nested):
    """Another loss, and a regulariser that makes vectors sparse: FLOPS of their dot products (SPLADE).

    For vectors with components a_ij of N texts, FLOPS = sum_j (sum_i |a_ij| / N)^2. The loss is

        loss + s * (query_weight * FLOPS(queries) + document_weight * FLOPS(documents))

    where documents are all other columns of texts together. While a part p < warmup of the stage's steps is
    over, the factor s is (p / warmup)^2, and then 1. A teacher's vectors are not counted.

    Source: Paria et al. 2020, equation 4; Formal et al. 2021 (SPLADE v2), section 2.3.
    """

    name = "flops"

    loss: Loss
    """The inner loss: `{ use = "info-nce", similarity = "dot", temperature = 1.0 }`."""
    query_weight: float = attrs.field(default=5e-5, validator=ge(0))
    """Weight of the queries' FLOPS, >= 0."""
    document_weight: float = attrs.field(default=3e-5, validator=ge(0))
    """Weight of the documents' FLOPS, >= 0."""
    query: str = "anchor"
    """Column of the queries."""
    warmup: float = attrs.field(default=1 / 3, validator=and_(ge(0), le(1)))
    """Part of the stage's steps in which both weights grow from 0, quadratically, in [0, 1]."""

    def check(self) -> Iterator[str]:
        """Yield why a column's FLOPS would have no gradient."""
        yield from super().check()
        keys = sorted(self.loss.traits.keys)
        if keys:
            columns = listed(keys)
            yield (
                f"the loss `{self.loss.name}` has a moving average encode {columns}, without gradient, so that "
                "nothing would make their vectors sparse; use `queue` or `info-nce` in its place"
            )

    @property
    def traits(self) -> LossTraits:
        """The traits of the inner loss; with `warmup`, it is asked how much of the stage is over."""
        return LossTraits.of(
            self.loss,
            cites=("paria2020flops", "formal2021splade"),
            needs=frozenset({self.query}),
            reads=VECTORS,
            scheduled=self.loss.traits.scheduled or self.warmup > 0,
        )

    def build(self, width: int) -> Module:
        """Return `module(inputs) -> LossOutput`.

        Metrics: `NAME` of the inner loss, and its own as `NAME.METRIC`; `query_flops` and `document_flops`,
        without weights; `query_active` and `document_active`, the mean number of components that are not 0.
        """
        from sentbed_losses._torch.flops import FlopsLoss, StatefulFlopsLoss

        traits = self.loss.traits
        module = FlopsLoss
        if traits.stateful:
            module = StatefulFlopsLoss

        return module(
            inner_module(self.loss, width),
            name=self.loss.name,
            traits=traits,
            query=self.query,
            query_weight=self.query_weight,
            document_weight=self.document_weight,
            warmup=self.warmup,
        )
