"""Masked next-token prediction."""

from __future__ import annotations

from typing import Any

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns


class MNTPLoss(nn.Module):
    """See `sentbed_losses.mntp.MNTP`."""

    def __init__(self, probability: float, masked: float, random: float) -> None:
        super().__init__()
        self.probability = probability
        self.masked = masked
        self.random = random

    def corrupt(self, ids: Tensor, special: Tensor, head: Any) -> tuple[Tensor, Tensor]:
        """Return the ids that the encoder reads, and a mask of the chosen tokens, both `(total,)`."""
        chosen = (torch.rand(ids.shape) < self.probability) & ~special
        share = torch.rand(ids.shape)
        drawn = torch.randint(head.tokens, ids.shape)
        read = torch.where(share < self.masked, head.mask_id, ids)
        is_random = (share >= self.masked) & (share < self.masked + self.random)
        read = torch.where(is_random, drawn, read)

        return torch.where(chosen, read, ids), chosen

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the mean over the predicted tokens; `inputs` has logits `anchor` and ids `anchor.id`."""
        logits, ids = inputs["anchor"].to(torch.float32), inputs["anchor.id"]
        # A small batch of short texts may have no chosen token: its loss is 0, and so is its gradient.
        count = max(1, len(ids))

        is_right = logits.argmax(dim=1) == ids
        accuracy = is_right.to(torch.float32).sum() / count
        loss = functional.cross_entropy(logits, ids, reduction="sum") / count
        return LossOutput(loss, {"accuracy": accuracy.detach()})
