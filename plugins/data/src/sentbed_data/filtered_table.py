"""A table that counts the rows left out of it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from sentbed_common import InMemoryDataset


@attrs.frozen(eq=False)
class FilteredTable(InMemoryDataset):
    """Columns of text, with counts of what was left out of the files."""

    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Description of what was left out -> its count; counts of 0 are omitted."""
