"""The FLOPS regulariser around another loss."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import torch
from sentbed.protocols import LossOutput

STEP = "step"
"""Key of the number of steps in the state."""
INNER = "loss."
"""Beginning of the names of the inner loss's states."""


class FlopsLoss(torch.nn.Module):
    """See `sentbed_losses.flops.Flops`.

    The metrics of the inner loss go by its `name`; vectors of the columns in `targets` are not counted.
    """

    def __init__(
        self,
        loss: torch.nn.Module,
        name: str,
        query: str,
        query_weight: float,
        document_weight: float,
        warmup: int,
        targets: Collection[str],
    ) -> None:
        super().__init__()
        self.loss = loss
        self.name = name
        self.query = query
        self.query_weight = query_weight
        self.document_weight = document_weight
        self.warmup = warmup
        self.targets = frozenset(targets)

    def forward(self, inputs: Mapping[str, torch.Tensor]) -> LossOutput:
        """Return the loss of a batch, with full weights."""
        return self.regularised(self.loss(inputs), inputs, 1.0)

    def regularised(
        self,
        inner: LossOutput,
        inputs: Mapping[str, torch.Tensor],
        scale: torch.Tensor | float,
    ) -> LossOutput:
        """Return the inner loss with FLOPS, whose weights are multiplied by `scale`."""
        queries = inputs[self.query]
        documents = self._documents(inputs)
        query_flops, document_flops = flops(queries), flops(documents)
        weighted = (
            self.query_weight * query_flops + self.document_weight * document_flops
        )
        metrics = {
            self.name: inner.loss.detach(),
            "query_flops": query_flops.detach(),
            "document_flops": document_flops.detach(),
            "query_active": _active(queries),
            "document_active": _active(documents),
        }
        for name, value in inner.metrics.items():
            metrics[f"{self.name}.{name}"] = value
        return LossOutput(inner.loss + scale * weighted, metrics)

    def _documents(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Return the vectors of all columns but the queries and a teacher's, `(texts, width)`."""
        columns = []
        for name, vectors in inputs.items():
            is_left_out = name == self.query or name in self.targets
            if vectors.ndim == 2 and not is_left_out:
                columns.append(vectors)
        if not columns:
            return torch.zeros_like(inputs[self.query][:1])
        return torch.cat(columns)


class StatefulFlopsLoss(FlopsLoss):
    """`FlopsLoss` that counts steps for the warm-up, and keeps the state of the inner loss."""

    def initial_state(self) -> dict[str, torch.Tensor]:
        """Return the number of steps, 0, and the first state of the inner loss."""
        state = {STEP: torch.zeros(())}
        inner: Any = self.loss
        if hasattr(inner, "initial_state"):
            for name, value in inner.initial_state().items():
                state[f"{INNER}{name}"] = value
        return state

    def forward(
        self,
        inputs: Mapping[str, torch.Tensor],
        state: Mapping[str, torch.Tensor] | None = None,
    ) -> LossOutput:
        """Return the loss of a batch in the step that the state counts."""
        assert state is not None
        inner_state = {
            name.removeprefix(INNER): value
            for name, value in state.items()
            if name.startswith(INNER)
        }
        if hasattr(self.loss, "initial_state"):
            inner = self.loss(inputs, inner_state)
        else:
            inner = self.loss(inputs)

        # A warm-up of 0 steps is over in step 0.
        progress = (state[STEP] + float(self.warmup == 0)) / max(self.warmup, 1)
        output = self.regularised(inner, inputs, progress.clamp(max=1.0).square())
        after = {STEP: state[STEP] + 1}
        for name, value in (inner.state or {}).items():
            after[f"{INNER}{name}"] = value
        return LossOutput(output.loss, output.metrics, after)


def flops(vectors: torch.Tensor) -> torch.Tensor:
    """Return the sum of the squared means of the components, of which none is negative."""
    return vectors.mean(dim=0).square().sum()


def _active(vectors: torch.Tensor) -> torch.Tensor:
    """Return the mean number of components that are not 0."""
    return (vectors.detach() != 0).sum(dim=1).float().mean()
