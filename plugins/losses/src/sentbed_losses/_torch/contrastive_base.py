"""The base class of the contrastive losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from sentbed.errors import RunError
from sentbed.protocols import Similarity
from torch import Tensor, nn
from torch.nn import functional

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.similarity import Products, contrast_metrics
from sentbed_losses.columns import HARD_NEGATIVES


class Texts(NamedTuple):
    """A column of a batch, or a memory."""

    vectors: Any
    """As the similarity's `normalize` returns them: `(n, width)`, fp32, or `TokenVectors`."""
    ids: Tensor | None = None
    """`(n,)`, equal for equal texts; None if texts are not compared."""
    empty: Tensor | None = None
    """`(n,)`, true for an empty slot; None if no slot is empty."""


class ContrastiveLoss(nn.Module):
    """Softmax over similarities, with and without a memory.

    `temperature` is a module that returns the temperature, a float or a scalar tensor; `similarity` has the
    methods of `sentbed.protocols.Similarity`. With `counts_negatives`, the number of negatives is a metric. The
    other arguments are the fields of `sentbed_losses.contrastive_base.Contrastive`.
    """

    def __init__(  # noqa: PLR0913 - the fields of the loss
        self,
        temperature: nn.Module,
        similarity: Similarity | Products,
        symmetric: bool,
        margin: float,
        hard_negatives: str,
        hard_negative_weight: float,
        hardness: float,
        hardness_of: str,
        mask_duplicates: bool,
        false_negative_threshold: float | None,
        counts_negatives: bool,
    ) -> None:
        super().__init__()
        self.temperature = temperature
        self.similarity = similarity
        self.symmetric = symmetric
        self.margin = margin
        self.log_weight = math.log(hard_negative_weight)
        self.hard_negatives = hard_negatives
        self.hardness = hardness
        self.hardness_of = hardness_of
        self.compares_texts = mask_duplicates
        self.threshold = false_negative_threshold
        self.counts_negatives = counts_negatives
        self.in_batch = True
        """Whether other rows of the batch are in a row's denominator."""

    def columns(self, inputs: Columns) -> dict[str, Texts]:
        """Return the columns of a batch, ready to be compared."""
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
        """Return the ids of the texts of a column, or None if texts are not compared."""
        if not self.compares_texts:
            return None

        if f"{column}.id" not in inputs:
            raise RunError(
                f"`mask_duplicates` compares texts, but of the column `{column}` there are vectors only; "
                "take `mask_duplicates` out of the loss"
            )

        return inputs[f"{column}.id"]

    def contrast(
        self, columns: Mapping[str, Texts], memory: Texts | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return loss and metrics of a batch with `anchor`, `positive` and perhaps hard negatives."""
        anchor, positive = columns["anchor"], columns["positive"]
        negatives = []
        if self.in_batch and self.hard_negatives != "none":
            for name in HARD_NEGATIVES:
                if name in columns:
                    negatives.append(columns[name])

        loss, similarity = self.rank(anchor, positive, negatives, memory, self.hardness)
        if self.symmetric:
            other_direction, _ = self.rank(positive, anchor)
            loss = (loss + other_direction) / 2

        temperature = self.temperature()
        metrics = contrast_metrics(similarity, temperature, self.counts_negatives)
        return loss, metrics

    def rank(
        self,
        query: Texts,
        target: Texts,
        negatives: Sequence[Texts] = (),
        memory: Texts | None = None,
        hardness: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of finding target i for query i, and the similarities behind it.

        The similarities are `(n, candidates)`, detached. That of row i and its target is at (i, i); those
        outside the row's denominator are -inf.
        """
        rows, device = len(query.vectors), query.vectors.device
        is_target = torch.eye(rows, dtype=torch.bool, device=device)
        temperature = self.temperature()
        of_own = of_others = 0.0
        if self.hardness_of in ("own", "all"):
            of_own = hardness
        if self.hardness_of in ("others", "all"):
            of_others = hardness

        shift = -self.margin / temperature
        weight = of_others * ~is_target
        parts = [
            self.compare(query, target, target, temperature, weight, is_target, shift)
        ]

        weight = weight + of_own * is_target
        shift = self.log_weight
        for negative in negatives:
            similarity, logits = self.compare(
                query, target, negative, temperature, weight, is_target, shift
            )
            if self.hard_negatives == "own":
                similarity = similarity.masked_fill(~is_target, -math.inf)
                logits = logits.masked_fill(~is_target, -math.inf)

            parts.append((similarity, logits))

        if memory is not None:
            parts.append(self.compare(query, target, memory, temperature, of_others))

        similarity, logits = (
            torch.cat(blocks, dim=1) for blocks in zip(*parts, strict=True)
        )
        place = torch.arange(len(logits), device=logits.device)
        return functional.cross_entropy(logits, place), similarity

    def compare(
        self,
        query: Texts,
        target: Texts,
        candidates: Texts,
        temperature: Tensor | float,
        hardness: Tensor | float,
        is_target: Tensor | None = None,
        shift: Tensor | float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        """Return detached similarities and logits of some candidates, both -inf for those left out.

        `hardness` is the weight of a candidate by its similarity, for all or for each, `(n, candidates)`.
        `is_target` is true for a row's own candidate, which is never left out and whose logit is shifted.
        """
        similarity = self.similarity.similarity(query.vectors, candidates.vectors)
        logits = similarity / temperature
        out = self.left_out(query, target, candidates)
        if is_target is not None:
            logits = logits + shift * is_target
            out = (out | (not self.in_batch)) & ~is_target

        if self.hardness:
            logits = logits + hardness * similarity.detach()

        # Masked after the division: masked before it, the temperature's gradient would be 0 x inf.
        similarity = similarity.detach().masked_fill(out, -math.inf)
        return similarity, logits.masked_fill(out, -math.inf)

    def left_out(self, query: Texts, target: Texts, candidates: Texts) -> Tensor:
        """Return a mask of the candidates that each row's denominator omits, `(n, candidates)`."""
        shape = len(query.vectors), len(candidates.vectors)
        out = torch.zeros(shape, dtype=torch.bool, device=query.vectors.device)
        if candidates.empty is not None:
            out = out | candidates.empty

        for texts in (query, target):
            if texts.ids is not None and candidates.ids is not None:
                out = out | (texts.ids[:, None] == candidates.ids)

        if self.threshold is not None:
            similarity = self.similarity.similarity(
                target.vectors.detach(), candidates.vectors.detach()
            )
            out = out | (similarity > self.threshold)

        return out
