"""A data set in memory, so that core is tested without the distribution that has one for plugins."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from sentbed.protocols import Dataset


@attrs.frozen(eq=False)
class ToyDataset(Dataset):
    """Columns of equal length."""

    data: Mapping[str, Sequence[Any]]

    @property
    def columns(self):
        return tuple(self.data)

    @property
    def fingerprint(self):
        content = repr([(name, list(texts)) for name, texts in self.data.items()])
        return hashlib.sha256(content.encode()).hexdigest()

    def __len__(self):
        return len(next(iter(self.data.values()), ()))

    def rows(self, indices, epoch=0):
        return {name: [texts[i] for i in indices] for name, texts in self.data.items()}

    def texts(self, columns=None):
        for name, texts in self.data.items():
            if columns is None or name in columns:
                yield from (text for text in texts if isinstance(text, str))
