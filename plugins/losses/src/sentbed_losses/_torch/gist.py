"""Guided InfoNCE."""

from __future__ import annotations

import math

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns, columns_with_teacher
from sentbed_losses._torch.similarity import contrast_metrics, unit
from sentbed_losses.columns import TEACHER


class GistLoss(nn.Module):
    """See `sentbed_losses.gist.Gist`; `temperature` is a module that returns the temperature."""

    def __init__(
        self,
        temperature: nn.Module,
        margin: float,
        margin_kind: str,
        contrast_anchors: bool,
        contrast_positives: bool,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.margin = margin
        self.relative = margin_kind == "relative"
        self.contrasts = [("anchor", "positive")]
        if contrast_anchors:
            self.contrasts.append(("anchor", "anchor"))
        if contrast_positives:
            self.contrasts.append(("positive", "positive"))

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch."""
        units = {}
        for name, value in vectors.items():
            if value.ndim == 2:
                units[name] = unit(value)

        of_pair = units[f"{TEACHER}anchor"] * units[f"{TEACHER}positive"]
        guide_of_pair = of_pair.sum(dim=-1, keepdim=True).detach()
        margin: float | Tensor = self.margin
        if self.relative:
            margin = guide_of_pair.abs() * margin

        threshold = guide_of_pair - margin
        rows = len(guide_of_pair)
        same = torch.eye(rows, dtype=torch.bool, device=guide_of_pair.device)
        _, _, *negatives = columns_with_teacher(units)
        contrasts = [*self.contrasts, *(("anchor", name) for name in negatives)]

        temperature = self.temperature()
        similarities, logits = [], []
        for query, candidate in contrasts:
            similarity = units[query] @ units[candidate].T
            guide = units[TEACHER + query] @ units[TEACHER + candidate].T
            out = guide.detach() > threshold
            if (query, candidate) == ("anchor", "positive"):
                out = out & ~same
            elif query == candidate:
                out = out | same

            # Masked after the division, as in `ContrastiveLoss.compare`.
            similarities.append(similarity.detach().masked_fill(out, -math.inf))
            logits.append((similarity / temperature).masked_fill(out, -math.inf))

        place = torch.arange(rows, device=guide_of_pair.device)
        loss = functional.cross_entropy(torch.cat(logits, dim=1), place)
        kept = torch.cat(similarities, dim=1)
        return LossOutput(loss, contrast_metrics(kept, temperature, True))
