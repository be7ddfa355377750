"""Training with losses that predict tokens: corrupted texts, and the states from which tokens are predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import torch
from sentbed.helpers import fault, returned
from sentbed.protocols import Loss, TokenIds
from torch import Tensor

from sentbed_hardware._torch.tower import BatchVectors, Chunk, Tower


class Corrupted:
    """A batch of texts in which some tokens are masked or replaced, and the tokens to predict.

    The encoder reads the texts `read`. The k-th token to predict has the true id `ids[k]`. It is predicted from
    the state at `places[k]` in the text with the index `texts[k]`; places are counted from the first token of
    the text. In a causal model, a state predicts the next token, so the first token of a text is not predicted.
    """

    def __init__(
        self,
        tokens: TokenIds,
        loss: Any,
        head: Any,
        component: Loss,
    ) -> None:
        ids = torch.from_numpy(tokens.ids).long()
        special_ids = torch.tensor(head.special_ids, dtype=torch.long)
        read, chosen = loss.corrupt(ids, torch.isin(ids, special_ids), head)
        returned(read, Tensor, component, "build")
        returned(chosen, Tensor, component, "build")
        same_shapes = read.shape == chosen.shape == ids.shape
        if not same_shapes or chosen.dtype != torch.bool:
            wrong = (
                f"built a module whose `corrupt` gives {tuple(read.shape)} and {tuple(chosen.shape)}, expected "
                f"ids and booleans {tuple(ids.shape)}"
            )
            raise fault(component, "build", wrong)

        self.read = attrs.evolve(tokens, ids=read.numpy().astype(np.int32))
        texts = np.repeat(np.arange(len(tokens)), tokens.lengths)
        places = np.arange(len(tokens.ids)) - tokens.offsets[texts] - head.shift
        kept = np.flatnonzero(chosen.numpy() & (places >= 0))
        self.texts = texts[kept]
        self.places = places[kept]
        self.ids = tokens.ids[kept].astype(np.int64)


class PredictingStates(BatchVectors):
    """The token states from which the tokens of `Corrupted` are predicted, one per token.

    `vectors` has the shape `(tokens to predict, width)`.
    """

    def __init__(
        self,
        tower: Tower,
        corrupted: Corrupted,
        chunks: Sequence[Chunk],
        recompute: bool = True,
    ) -> None:
        self.corrupted = corrupted
        super().__init__(tower, corrupted.read, chunks, recompute)

    def forward(self, rows: Chunk) -> Tensor:
        """Compute the texts `rows` in one pass, and return the states that predict their tokens, in fp32."""
        states = self.tower.states(self.tokens, rows).last_hidden_state
        row_of_text = np.full(len(self.tokens), -1)
        row_of_text[rows] = np.arange(len(rows))

        positions = self.positions(rows)
        predicting_rows = row_of_text[self.corrupted.texts[positions]]
        places = self.corrupted.places[positions]
        put = self.tower.placement.put
        predicting: Tensor = states[put(predicting_rows), put(places)]
        return predicting.float()

    def positions(self, rows: Chunk) -> Chunk:
        """See `BatchVectors.positions`."""
        return np.flatnonzero(np.isin(self.corrupted.texts, rows))

    def texts_of(self, positions: Chunk) -> Chunk:
        """See `BatchVectors.texts_of`."""
        return self.corrupted.texts[positions]
