"""The module of the loss `mntp`."""

from __future__ import annotations

from typing import Any

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns


class MNTPLoss(nn.Module):
    """The loss `mntp`; see `sentbed_losses.mntp.MNTP`."""

    def __init__(
        self,
        probability: float,
        masked: float,
        random: float,
    ) -> None:
        super().__init__()
        self.probability = probability
        self.masked = masked
        self.random = random

    def corrupt(
        self,
        ids: Tensor,
        special: Tensor,
        head: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return the ids that the encoder reads, and a mask of the chosen tokens, both `(tokens,)`.

        `special` is a mask of the special tokens. `head` is the backbone's language-modelling head. Its
        attributes `tokens` and `mask_id` are the size of the vocabulary and the id of the mask token.
        """
        chosen = (torch.rand(ids.shape) < self.probability) & ~special
        share = torch.rand(ids.shape)
        random_ids = torch.randint(head.tokens, ids.shape)
        replaced = torch.where(share < self.masked, head.mask_id, ids)
        is_random = (share >= self.masked) & (share < self.masked + self.random)
        replaced = torch.where(is_random, random_ids, replaced)

        return torch.where(chosen, replaced, ids), chosen

    def forward(self, inputs: Columns) -> LossOutput:
        """Return the mean loss of the chosen tokens, whose logits are `anchor` and whose ids are `anchor.id`."""
        logits, ids = inputs["anchor"].to(torch.float32), inputs["anchor.id"]
        # In a small batch of short texts, it may happen that no token is chosen. The loss is then 0, and so is
        # the gradient.
        count = max(1, len(ids))

        is_right = logits.argmax(dim=1) == ids
        accuracy = is_right.to(torch.float32).sum() / count
        loss = functional.cross_entropy(logits, ids, reduction="sum") / count
        return LossOutput(loss, {"accuracy": accuracy.detach()})
