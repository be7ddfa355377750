"""The module of the loss `info-nce`, and the base class of those of the contrastive losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from sentbed.errors import RunError
from sentbed.protocols import LossOutput
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import Products, contrast_metrics
from sentbed_losses._torch.temperature import temperature_module
from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.contrastive_base import Contrastive


class Texts(NamedTuple):
    """The n texts of a column of a batch, or those in a memory."""

    vectors: Any
    """The texts' vectors, normalised by the method `normalize` of the similarity: fp32 `(n, width)`, or
    `TokenVectors`."""
    ids: Tensor | None = None
    """`(n,)`, numbers that are equal for equal texts; None if texts are not compared."""


class Memory(NamedTuple):
    """The texts of earlier batches, for a loss that remembers them."""

    texts: Texts
    empty: Tensor
    """`(size,)`, true for the slots of the memory that are not in use yet."""


class ContrastiveLoss(nn.Module):
    """A softmax over similarities, with or without a memory of vectors of earlier batches."""

    def __init__(self, settings: Contrastive) -> None:
        super().__init__()
        self.settings = settings
        self.temperature = temperature_module(settings.temperature)
        is_cosine = settings.similarity != "dot"
        self.similarity = settings.of_encoder or Products(is_cosine)

    def columns(self, inputs: Columns) -> dict[str, Texts]:
        """Return the columns of texts of a batch, with normalised vectors."""
        columns = {}
        for name in ("anchor", "positive", *HARD_NEGATIVES):
            if name not in inputs:
                continue

            vectors = inputs[name]
            if isinstance(vectors, Tensor):
                vectors = vectors.to(torch.float32)

            normalized = self.similarity.normalize(vectors)
            columns[name] = Texts(normalized, self.ids(inputs, name))

        return columns

    def ids(self, inputs: Columns, column: str) -> Tensor | None:
        """Return the ids of the texts of a column, or None if texts are not compared.

        Raises:
            RunError: if the data has vectors of the column, but not its texts.
        """
        if not self.settings.mask_duplicates:
            return None

        if f"{column}.id" not in inputs:
            raise RunError(
                f"`mask_duplicates` compares texts, but the data has only vectors for the column `{column}`; "
                "take `mask_duplicates` out of the loss"
            )

        return inputs[f"{column}.id"]

    def contrast(
        self,
        columns: Mapping[str, Texts],
        memory: Memory | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss and the metrics of a batch.

        The columns are `anchor`, `positive`, and hard negatives if the data has them.
        """
        anchor, positive = columns["anchor"], columns["positive"]
        negatives = []
        if self.settings.in_batch and self.settings.hard_negatives != "none":
            for name in HARD_NEGATIVES:
                if name in columns:
                    negatives.append(columns[name])

        loss, similarity = self.rank(anchor, positive, negatives, memory)
        if self.settings.symmetric:
            other_direction, _ = self.rank(positive, anchor)
            loss = (loss + other_direction) / 2

        counts_negatives = self.settings.counts_negatives
        return loss, contrast_metrics(similarity, self.temperature(), counts_negatives)

    def rank(
        self,
        query: Texts,
        target: Texts,
        negatives: Sequence[Texts] = (),
        memory: Memory | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the cross entropy of finding target i for query i, and the similarities of all candidates.

        Candidates are the targets, the hard negatives and the memory. The similarities are `(n, candidates)`,
        detached. The first n columns are those of the targets, so the right ones are on the diagonal. Candidates
        that are left out of a row's denominator have -inf.
        """
        rows, device = len(query.vectors), query.vectors.device
        is_own_row = torch.eye(rows, dtype=torch.bool, device=device)
        temperature = self.temperature()
        similarities, all_logits = [], []

        for candidates in (target, *negatives):
            similarity = self.similarity.similarity(query.vectors, candidates.vectors)
            logits = similarity / temperature
            out = self.has_equal_text(query, target, candidates)
            is_negative = candidates is not target
            if is_negative and self.settings.hardness:
                harder = logits + self.settings.hardness * similarity.detach()
                logits = torch.where(is_own_row, harder, logits)
            if is_negative and self.settings.hard_negatives == "own":
                out = torch.ones_like(out)
            if not self.settings.in_batch:
                out = torch.ones_like(out)

            # With -inf before the division, the gradient of the temperature would be 0 x inf, which is NaN.
            out = out & ~is_own_row
            similarities.append(similarity.detach().masked_fill(out, -math.inf))
            all_logits.append(logits.masked_fill(out, -math.inf))

        if memory is not None:
            remembered = memory.texts
            similarity = self.similarity.similarity(query.vectors, remembered.vectors)
            logits = similarity / temperature
            out = self.has_equal_text(query, target, remembered) | memory.empty
            similarities.append(similarity.detach().masked_fill(out, -math.inf))
            all_logits.append(logits.masked_fill(out, -math.inf))

        right = torch.arange(rows, device=device)
        loss = functional.cross_entropy(torch.cat(all_logits, dim=1), right)
        return loss, torch.cat(similarities, dim=1)

    def has_equal_text(
        self,
        query: Texts,
        target: Texts,
        candidates: Texts,
    ) -> Tensor:
        """Return a mask `(n, candidates)` that is true for candidates whose text is the row's query or target.

        It is false everywhere if texts are not compared.
        """
        if query.ids is None or target.ids is None or candidates.ids is None:
            shape = len(query.vectors), len(candidates.vectors)
            return torch.zeros(shape, dtype=torch.bool, device=query.vectors.device)

        equals_query = query.ids[:, None] == candidates.ids
        equals_target = target.ids[:, None] == candidates.ids
        return equals_query | equals_target


class InfoNCELoss(ContrastiveLoss):
    """The loss `info-nce`; see `sentbed_losses.info_nce.InfoNCE`."""

    def forward(self, vectors: Columns) -> LossOutput:
        """Return the mean loss of a batch with the columns `anchor` and `positive`, and perhaps hard
        negatives."""
        return LossOutput(*self.contrast(self.columns(vectors)))
