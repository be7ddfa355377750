"""The FLOPS regulariser around another loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from sentbed.protocols import PROGRESS, LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.nested_loss_base import named_after


class FlopsLoss(nn.Module):
    """See `sentbed_losses.flops.Flops`.

    The metrics of the inner loss go by its `name`; vectors of the columns in `targets` are not counted.
    """

    def __init__(
        self,
        loss: nn.Module,
        name: str,
        query: str,
        query_weight: float,
        document_weight: float,
        warmup: float,
        targets: Collection[str],
        inner_is_scheduled: bool,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.name = name
        self.query = query
        self.query_weight = query_weight
        self.document_weight = document_weight
        self.warmup = warmup
        self.targets = frozenset(targets)
        self.inner_is_scheduled = inner_is_scheduled

    def forward(
        self,
        inputs: Columns,
        state: Mapping[str, Tensor] | None = None,
    ) -> LossOutput:
        """Return the loss of a batch; the state is that of the inner loss."""
        columns = dict(inputs)
        progress = columns.pop(PROGRESS, None)
        arguments: list[Any] = [inputs if self.inner_is_scheduled else columns]
        if state is not None:
            arguments.append(state)
        inner: LossOutput = self.loss(*arguments)

        queries = columns[self.query]
        documents = self._documents(columns)
        query_flops, document_flops = flops(queries), flops(documents)
        regulariser = (
            self.query_weight * query_flops + self.document_weight * document_flops
        )
        if self.warmup > 0 and progress is not None:
            share = (progress / self.warmup).clamp(max=1.0)
            regulariser = share.square() * regulariser
        metrics = {
            self.name: inner.loss.detach(),
            "query_flops": query_flops.detach(),
            "document_flops": document_flops.detach(),
            "query_active": _active(queries),
            "document_active": _active(documents),
        }
        metrics |= named_after(self.name, inner.metrics)
        return LossOutput(inner.loss + regulariser, metrics, inner.state)

    def _documents(self, columns: Columns) -> Tensor:
        """Return the vectors of all columns but the queries and a teacher's, `(texts, width)`."""
        documents = []
        for name, vectors in columns.items():
            is_left_out = name == self.query or name in self.targets
            if vectors.ndim == 2 and not is_left_out:
                documents.append(vectors)
        if not documents:
            return torch.zeros_like(columns[self.query][:1])
        return torch.cat(documents)


class StatefulFlopsLoss(FlopsLoss):
    """`FlopsLoss` around a loss with a state."""

    def initial_state(self) -> dict[str, Tensor]:
        """Return the first state of the inner loss."""
        inner: Any = self.loss
        state: dict[str, Tensor] = inner.initial_state()
        return state


def flops(vectors: Tensor) -> Tensor:
    """Return the sum of the squared means of the components' absolute values."""
    # At 0 the gradient is that of a positive component, as in the papers' models; that of `abs` is 0 there.
    sizes = torch.where(vectors < 0, -vectors, vectors)
    return sizes.mean(dim=0).square().sum()


def _active(vectors: Tensor) -> Tensor:
    """Return the mean number of components that are not 0."""
    return (vectors.detach() != 0).sum(dim=1).float().mean()
