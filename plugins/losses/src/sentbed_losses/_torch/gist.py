"""The module of the loss `gist`."""

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
    """The loss `gist`; see `sentbed_losses.gist.Gist`. `temperature` is a module that returns the temperature."""

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
        """Pairs of columns whose cosines are in the denominator. `forward` adds the pairs with hard negatives."""
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

        threshold = self._threshold(units)
        rows, device = len(threshold), threshold.device
        is_own_row = torch.eye(rows, dtype=torch.bool, device=device)
        # The first two are `anchor` and `positive`.
        _, _, *negatives = columns_with_teacher(units)
        contrasts = [*self.contrasts, *(("anchor", name) for name in negatives)]

        temperature = self.temperature()
        similarities, logits = [], []
        for query, candidate in contrasts:
            similarity = units[query] @ units[candidate].T
            teacher = units[TEACHER + query] @ units[TEACHER + candidate].T
            out = teacher.detach() > threshold
            if (query, candidate) == ("anchor", "positive"):
                out = out & ~is_own_row
            elif query == candidate:
                out = out | is_own_row

            # -inf comes after the division, for the reason that is stated in `ContrastiveLoss.rank`.
            similarities.append(similarity.detach().masked_fill(out, -math.inf))
            logits.append((similarity / temperature).masked_fill(out, -math.inf))

        right = torch.arange(rows, device=device)
        loss = functional.cross_entropy(torch.cat(logits, dim=1), right)
        similarity = torch.cat(similarities, dim=1)
        return LossOutput(loss, contrast_metrics(similarity, temperature, True))

    def _threshold(self, units: Columns) -> Tensor:
        """Return the teacher's cosine above which a term is left out, for each row, `(rows, 1)`."""
        products = units[f"{TEACHER}anchor"] * units[f"{TEACHER}positive"]
        pair_cosine = products.sum(dim=-1, keepdim=True).detach()
        if self.relative:
            return pair_cosine - pair_cosine.abs() * self.margin

        return pair_cosine - self.margin
