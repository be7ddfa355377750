"""The base class of the contrastive losses' modules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from sentbed.errors import RunError
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import Products, contrast_metrics
from sentbed_losses._torch.temperature import temperature_module
from sentbed_losses.columns import HARD_NEGATIVES
from sentbed_losses.contrastive_base import Contrastive


class Texts(NamedTuple):
    """The n texts of a column of a batch, or of a memory."""

    vectors: Any
    """The texts' vectors, normalised by the method `normalize` of the similarity: fp32 `(n, width)`, or
    `TokenVectors`."""
    ids: Tensor | None = None
    """`(n,)`, numbers that are equal for equal texts; None if texts are not compared."""
    empty: Tensor | None = None
    """`(n,)`, true for the empty slots of a memory; None for a column of a batch."""


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
        self, columns: Mapping[str, Texts], memory: Texts | None = None
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

        temperature = self.temperature()
        counts_negatives = self.settings.counts_negatives
        return loss, contrast_metrics(similarity, temperature, counts_negatives)

    def rank(
        self,
        query: Texts,
        target: Texts,
        negatives: Sequence[Texts] = (),
        memory: Texts | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the cross entropy of finding target i for query i, and the similarities of all candidates.

        Candidates are the targets, the hard negatives and the memory. The similarities are `(n, candidates)`,
        detached. The first n columns are those of the targets, so the right ones are on the diagonal. Candidates
        that are left out of a row's denominator have -inf.
        """
        rows, device = len(query.vectors), query.vectors.device
        is_own_row = torch.eye(rows, dtype=torch.bool, device=device)
        temperature = self.temperature()

        shift = -self.settings.margin / temperature
        similarity, logits = self.compare(
            query, target, target, temperature, is_own_row, shift
        )
        similarities, all_logits = [similarity], [logits]

        shift = math.log(self.settings.hard_negative_weight)
        for negative in negatives:
            similarity, logits = self.compare(
                query, target, negative, temperature, is_own_row, shift
            )
            if self.settings.hardness:
                harder = logits + self.settings.hardness * similarity
                logits = torch.where(is_own_row, harder, logits)
            if self.settings.hard_negatives == "own":
                similarity = similarity.masked_fill(~is_own_row, -math.inf)
                logits = logits.masked_fill(~is_own_row, -math.inf)

            similarities.append(similarity)
            all_logits.append(logits)

        if memory is not None:
            similarity, logits = self.compare(query, target, memory, temperature)
            similarities.append(similarity)
            all_logits.append(logits)

        right = torch.arange(rows, device=device)
        loss = functional.cross_entropy(torch.cat(all_logits, dim=1), right)
        return loss, torch.cat(similarities, dim=1)

    def compare(
        self,
        query: Texts,
        target: Texts,
        candidates: Texts,
        temperature: Tensor | float,
        is_own_row: Tensor | None = None,
        shift: Tensor | float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Return the similarities, detached, and the logits of candidates, each `(n, candidates)`.

        Both are -inf for candidates that are left out. `is_own_row` is true for candidates of the same row as the
        query, and None for a memory. Candidates of the same row are never left out, and `shift` is added to their
        logits.
        """
        similarity = self.similarity.similarity(query.vectors, candidates.vectors)
        logits = similarity / temperature
        out = self.left_out(query, target, candidates)
        if is_own_row is not None:
            logits = logits + shift * is_own_row
            out = (out | (not self.settings.in_batch)) & ~is_own_row

        # With -inf before the division, the gradient of the temperature would be 0 x inf, which is NaN.
        similarity = similarity.detach().masked_fill(out, -math.inf)
        return similarity, logits.masked_fill(out, -math.inf)

    def left_out(
        self,
        query: Texts,
        target: Texts,
        candidates: Texts,
    ) -> Tensor:
        """Return a mask `(n, candidates)` that is true for candidates to leave out of a row's denominator."""
        shape = len(query.vectors), len(candidates.vectors)
        out = torch.zeros(shape, dtype=torch.bool, device=query.vectors.device)
        if candidates.empty is not None:
            out = out | candidates.empty

        for texts in (query, target):
            if texts.ids is not None and candidates.ids is not None:
                out = out | (texts.ids[:, None] == candidates.ids)

        threshold = self.settings.false_negative_threshold
        if threshold is not None:
            similarity = self.similarity.similarity(
                target.vectors.detach(), candidates.vectors.detach()
            )
            out = out | (similarity > threshold)

        return out
