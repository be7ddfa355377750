"""The columns of a batch, as losses are given them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torch import Tensor

from sentbed_losses.columns import HARD_NEGATIVES, TEACHER

Columns: TypeAlias = Mapping[str, Tensor]
"""By name, vectors `(rows, width)` or numbers `(rows,)`; the ids of the texts of `NAME` are `NAME.id`."""


def columns_with_teacher(inputs: Columns) -> list[str]:
    """Return the columns of texts that a teacher has encoded too: anchor, positive and hard negatives."""
    names = []
    for name in ("anchor", "positive", *HARD_NEGATIVES):
        if name in inputs and TEACHER + name in inputs:
            names.append(name)

    return names
