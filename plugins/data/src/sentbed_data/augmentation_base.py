"""Data sets whose positives are altered copies of the anchors, altered anew in every epoch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from random import Random
from typing import TypeAlias

import attrs
from sentbed.protocols import Dataset

from sentbed_data.dropout import Dropout

Change: TypeAlias = Callable[[str, Random], str]
"""Function of a text and a random generator; returns the altered text."""


@attrs.frozen(eq=False)
class Augmented(Dataset):
    """A data set whose positives are made from the anchors when rows are read.

    The random choices of a row depend only on `seed`, the epoch and the index of the row.
    """

    source: Dataset
    """The data set of the anchors."""
    change: Change
    seed: int
    identity: str
    """All settings that determine the effect of `change`, in one line."""

    @property
    def varies(self) -> bool:
        """True: positives differ from epoch to epoch."""
        return True

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the anchors' fingerprint, the seed and `identity`."""
        return sha256(
            f"{self.source.fingerprint}\n{self.seed}\n{self.identity}".encode()
        ).hexdigest()

    def __len__(self) -> int:
        return len(self.source)

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[str]]:
        """Return the texts of these rows, by column."""
        anchors = list(self.source.rows(indices, epoch)["anchor"])
        positives = []
        for row, text in zip(indices, anchors, strict=True):
            random = Random(f"{self.seed} {epoch} {row}")
            positives.append(self.change(text, random))

        return {"anchor": anchors, "positive": positives}

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every anchor, then every positive of the first epoch."""
        if columns is None or "anchor" in columns:
            yield from self.source.texts(("anchor",))

        if columns is None or "positive" in columns:
            for start in range(0, len(self), 1024):
                rows = range(start, min(start + 1024, len(self)))
                yield from self.rows(rows)["positive"]


@attrs.frozen(kw_only=True)
class Augmentation(Dropout):
    """The base class of data sources whose positives are altered sentences.

    Sentences are read from a file as by `Dropout`, the source of unsupervised SimCSE, whose recipe fields it has.
    """

    seed: int = 0
    """Seed of the changes; they also depend on the epoch and the row. The order of the rows depends on the
    stage's seed."""

    def _augmented(self, change: Change, identity: str) -> Augmented:
        """Return the sentences with altered copies as a data set; `change` and `identity` as in `Augmented`."""
        return Augmented(
            super().open(), change, self.seed, f"{type(self).name} {identity}"
        )
