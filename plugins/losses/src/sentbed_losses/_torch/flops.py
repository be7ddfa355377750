"""The module of the loss `flops`: a regulariser around another loss."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.protocols import PROGRESS, Loss, LossOutput, Module
from torch import Tensor

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import Parts


class FlopsLoss(Parts):
    """The loss `flops` around `module`, the module of `loss`; see `sentbed_losses.flops.Flops`."""

    def __init__(
        self,
        loss: Loss,
        module: Module,
        query: str,
        query_weight: float,
        document_weight: float,
        warmup: float,
    ) -> None:
        super().__init__({loss.name: loss}, [module])
        self.query = query
        self.query_weight = query_weight
        self.document_weight = document_weight
        self.warmup = warmup
        self.without_documents = {query, *loss.targets}
        """Columns whose vectors are no documents."""

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the loss of a batch. The state is that of the inner loss."""
        inner = super().forward(inputs, state)
        queries, documents = inputs[self.query], self._documents(inputs)

        query_flops, document_flops = flops(queries), flops(documents)
        regulariser = self.query_weight * query_flops
        regulariser = regulariser + self.document_weight * document_flops
        if self.warmup > 0 and PROGRESS in inputs:
            share_of_warmup = (inputs[PROGRESS] / self.warmup).clamp(max=1.0)
            regulariser = share_of_warmup.square() * regulariser

        metrics = {
            **inner.metrics,
            "query_flops": query_flops.detach(),
            "document_flops": document_flops.detach(),
            "query_active": _active(queries),
            "document_active": _active(documents),
        }
        return LossOutput(inner.loss + regulariser, metrics, inner.state)

    def _documents(self, columns: Columns) -> Tensor:
        """Return the vectors of all documents, `(texts, width)`: all vectors except those of the queries and of a
        teacher.

        If there are none, a vector of zeros is returned, which has FLOPS of 0.
        """
        documents = []
        for name, vectors in columns.items():
            if vectors.ndim == 2 and name not in self.without_documents:
                documents.append(vectors)

        if not documents:
            return torch.zeros_like(columns[self.query][:1])

        return torch.cat(documents)


def flops(vectors: Tensor) -> Tensor:
    """Return the FLOPS of vectors: the sum over components of the squared mean absolute value."""
    # Components of SPLADE's vectors are never negative. At 0, the gradient must be that of a positive component,
    # and the gradient of `abs` is 0 there.
    sizes = torch.where(vectors < 0, -vectors, vectors)
    return sizes.mean(dim=0).square().sum()


def _active(vectors: Tensor) -> Tensor:
    """Return the mean number of components of a vector that are not 0."""
    counts = (vectors.detach() != 0).sum(dim=1)
    return counts.float().mean()
