"""Training of token predictions: the states that predict, detached from the passes that computed them."""

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
    """A batch of texts as the encoder reads them, and the tokens that are to be predicted.

    `read` are the ids that the encoder reads; the chosen token `ids[k]` is predicted by the state at place
    `places[k]` of text `texts[k]`, which counts from the text's first token. Nothing predicts a text's first
    token if a state predicts the next one.
    """

    def __init__(self, tokens: TokenIds, loss: Any, head: Any, component: Loss) -> None:
        ids = torch.from_numpy(tokens.ids).long()
        special_ids = torch.tensor(head.special_ids, dtype=torch.long)
        read, chosen = loss.corrupt(ids, torch.isin(ids, special_ids), head)
        returned(read, Tensor, component, "build")
        returned(chosen, Tensor, component, "build")
        alike = read.shape == chosen.shape == ids.shape
        if not alike or chosen.dtype != torch.bool:
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
    """The states that predict a batch's chosen tokens, `vectors` `(predicted, width)`, in their order."""

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
        """Return the predicting states of these texts from one pass, fp32."""
        states = self.tower.states(self.tokens, rows).last_hidden_state
        positions = self.positions(rows)
        row_of_text = np.full(len(self.tokens), -1)
        row_of_text[rows] = np.arange(len(rows))
        predicting_rows = row_of_text[self.corrupted.texts[positions]]
        places = self.corrupted.places[positions]

        put = self.tower.placement.put
        predicting: Tensor = states[put(predicting_rows), put(places)]
        return predicting.float()

    def positions(self, rows: Chunk) -> Chunk:
        """Return which of all vectors are those of these texts, in the order of `forward`."""
        return np.flatnonzero(np.isin(self.corrupted.texts, rows))

    def texts_of(self, vectors: Chunk) -> Chunk:
        """Return the texts that these vectors are of."""
        return self.corrupted.texts[vectors]
