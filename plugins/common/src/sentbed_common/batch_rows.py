"""Part of a batch."""

from __future__ import annotations

from typing import Any

import attrs
from sentbed.protocols import TokenBatch


def rows_of(batch: TokenBatch, rows: Any) -> TokenBatch:
    """Return these rows of a batch, a slice or indices, with the same prefix."""
    mask, auxiliary = batch.attention_mask, batch.auxiliary
    return attrs.evolve(
        batch,
        input_ids=batch.input_ids[rows],
        attention_mask=None if mask is None else mask[rows],
        auxiliary=None if auxiliary is None else rows_of(auxiliary, rows),
    )
