"""The columns of a batch, as losses are given them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from torch import Tensor

Columns: TypeAlias = Mapping[str, Tensor]
"""By name, vectors `(rows, width)` or numbers `(rows,)`; the ids of the texts of `NAME` are `NAME.id`."""
