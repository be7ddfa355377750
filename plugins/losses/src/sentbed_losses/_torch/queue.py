"""The module of the losses `queue` and `momentum`: InfoNCE with a memory of past positives."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.protocols import LossOutput
from torch import Tensor

from sentbed_losses._torch.batch_columns import Columns
from sentbed_losses._torch.info_nce import ContrastiveLoss, Memory, Texts
from sentbed_losses.contrastive_base import Contrastive


class QueueLoss(ContrastiveLoss):
    """The losses `queue` and `momentum`; see `sentbed_losses.queue.Queue`."""

    def __init__(self, settings: Contrastive, width: int, size: int) -> None:
        super().__init__(settings)
        self.width = width
        self.size = size

    def initial_state(self) -> dict[str, Tensor]:
        """Return an empty memory.

        `memory`, `(size, width)`, is a ring buffer of normalised vectors. `filled` is the number of slots in use,
        `next` the slot to write next. If texts are compared, `ids`, `(size,)`, are the ids of the vectors' texts.
        """
        state = {
            "memory": torch.zeros(self.size, self.width),
            "filled": torch.zeros((), dtype=torch.int64),
            "next": torch.zeros((), dtype=torch.int64),
        }
        if self.settings.mask_duplicates:
            state["ids"] = torch.zeros(self.size, dtype=torch.int64)

        return state

    def forward(self, vectors: Columns, state: Mapping[str, Tensor]) -> LossOutput:
        """Return the mean loss of a batch, and the memory after adding the batch's positives."""
        columns = self.columns(vectors)
        vectors_in_memory = state["memory"]
        slots = torch.arange(self.size, device=vectors_in_memory.device)
        texts = Texts(vectors_in_memory, state.get("ids"))
        memory = Memory(texts, empty=slots >= state["filled"])
        loss, metrics = self.contrast(columns, memory)
        return LossOutput(loss, metrics, self.enqueue(columns["positive"], state))

    def enqueue(
        self, positive: Texts, state: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """Return the memory with its oldest slots overwritten by the positives of a batch."""
        # At most `size` vectors, so that no place is written twice: which vector stays would then be undefined.
        vectors = positive.vectors.detach()[-self.size :]
        count = len(vectors)
        order = torch.arange(count, device=vectors.device)

        places = (state["next"] + order) % self.size
        next_state = {
            "memory": state["memory"].index_copy(0, places, vectors),
            "filled": (state["filled"] + count).clamp(max=self.size),
            "next": (state["next"] + count) % self.size,
        }
        if positive.ids is not None:
            ids = positive.ids[-self.size :]
            next_state["ids"] = state["ids"].index_copy(0, places, ids)

        return next_state
