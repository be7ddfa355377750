"""InfoNCE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from sentbed.protocols import LossOutput
from torch.nn import functional

if TYPE_CHECKING:
    from sentbed_losses.info_nce import InfoNCE


class InfoNCELoss(torch.nn.Module):
    """See `sentbed_losses.InfoNCE`."""

    def __init__(self, parameters: InfoNCE) -> None:
        super().__init__()
        self.temperature = parameters.temperature
        self.cosine = parameters.similarity == "cosine"
        self.symmetric = parameters.symmetric

    def forward(self, vectors: Mapping[str, torch.Tensor]) -> LossOutput:
        """Return the mean loss of a batch; `vectors` has `anchor`, `positive` and perhaps `negative`."""
        anchor, positive = self.scale(vectors["anchor"]), self.scale(vectors["positive"])
        candidates = positive
        if "negative" in vectors:
            candidates = torch.cat([positive, self.scale(vectors["negative"])])
        logits = anchor @ candidates.T / self.temperature
        target = torch.arange(logits.shape[0], device=logits.device)
        loss = functional.cross_entropy(logits, target)
        if self.symmetric:
            backward = positive @ anchor.T / self.temperature
            loss = (loss + functional.cross_entropy(backward, target)) / 2
        accuracy = (logits.argmax(dim=1) == target).to(torch.float32).mean()
        return LossOutput(loss, {"accuracy": accuracy.detach()})

    def scale(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the vectors in fp32, of length 1 where the similarity is the cosine."""
        vectors = vectors.to(torch.float32)
        return functional.normalize(vectors, dim=-1) if self.cosine else vectors
