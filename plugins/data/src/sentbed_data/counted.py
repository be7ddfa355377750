"""A table that knows what was left out of it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from sentbed.helpers import TextTable


@attrs.frozen(eq=False)
class CountedTable(TextTable):
    """Columns of text, and how much of the files is not among them."""

    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """What was left out, in words -> how often; nothing where the number is 0."""
