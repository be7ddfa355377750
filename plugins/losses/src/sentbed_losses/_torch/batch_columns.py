"""The columns of a batch, which are the inputs of a loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torch import Tensor

from sentbed_losses.columns import HARD_NEGATIVES, TEACHER

Columns: TypeAlias = Mapping[str, Tensor]
"""Name of a column -> vectors `(rows, width)` or numbers `(rows,)`. If the loss compares texts, `NAME.id` has a
number for each text of the column `NAME`. Equal texts have equal numbers."""


def columns_with_teacher(inputs: Columns) -> list[str]:
    """Return the names of the columns of texts (anchor, positive, hard negatives) that a teacher encodes, too."""
    names = []
    for name in ("anchor", "positive", *HARD_NEGATIVES):
        if name in inputs and TEACHER + name in inputs:
            names.append(name)

    return names
