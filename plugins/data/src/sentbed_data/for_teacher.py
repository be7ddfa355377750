"""The source `for-teacher`: the rows of another source, with copies of their texts for a teacher."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from sentbed.protocols import LABEL, Dataset, DataSource

from sentbed_data.columns_and_counts import chosen_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREFIX = "teacher_"
"""Prefix of the names of the columns that a teacher encodes."""


@attrs.frozen(kw_only=True)
class ForTeacher(DataSource):
    """The rows of another source, with a copy of each text in a column that a teacher encodes.

    For each column of texts there is a second one with the same texts: `teacher_anchor` for `anchor`. The stage
    assigns the columns to encoders:

        columns = { anchor = "student", teacher_anchor = "teacher" }

    and has the teacher in `freeze`.
    """

    name: ClassVar[str] = "for-teacher"

    source: DataSource
    """The source of the rows: `{ use = "pairs", ... }`."""
    only: tuple[str, ...] = ()
    """Columns of the source to keep, such as `["anchor"]` to distil single sentences; default: all."""

    @property
    def _kept(self) -> tuple[str, ...]:
        """The columns of the source that are kept."""
        return tuple(chosen_columns(self.source.columns, self.only or None))

    @property
    def columns(self) -> tuple[str, ...]:
        """The kept columns of the source, then the columns that the teacher encodes."""
        untaught = {LABEL, *self.source.numbers}
        of_teacher = [PREFIX + name for name in self._kept if name not in untaught]
        return (*self._kept, *of_teacher)

    @property
    def numbers(self) -> frozenset[str]:
        """The columns of numbers that are kept."""
        return self.source.numbers.intersection(self._kept)

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        for name in self.only:
            if name not in self.source.columns:
                yield (
                    f"`only` names the column `{name}`, the source `{self.source.name}` has "
                    f"{', '.join(self.source.columns)}; name some of them"
                )

        for name in self._kept:
            if name.startswith(PREFIX):
                yield f"the source has the column `{name}` already; use the source itself as the stage's data"
                return

    def open(self) -> Dataset:
        """Open the source. Raises `DataError` if it cannot be read."""
        return Doubled(self.columns, self.source.open())

    def files(self) -> Iterable[Path]:
        """Return the files of the source."""
        return self.source.files()


@attrs.frozen(eq=False)
class Doubled(Dataset):
    """A data set with additional columns `teacher_NAME`, which have the same texts as `NAME`."""

    columns: tuple[str, ...]
    source: Dataset

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the source's fingerprint and the columns."""
        described = repr((self.source.fingerprint, self.columns))
        return hashlib.sha256(described.encode()).hexdigest()

    @property
    def varies(self) -> bool:
        """Whether texts change from epoch to epoch."""
        return self.source.varies

    @property
    def left_out(self) -> Mapping[str, int]:
        """Number of rows that the source left out, by reason."""
        return self.source.left_out

    def __len__(self) -> int:
        return len(self.source)

    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the values of these rows, by column."""
        values = self.source.rows(indices, epoch)
        columns = {}
        for name in self.columns:
            columns[name] = values[name.removeprefix(PREFIX)]

        return columns

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text of the columns; texts of a teacher's column are those of the source's column."""
        names = set()
        for name in chosen_columns(self.columns, columns):
            names.add(name.removeprefix(PREFIX))

        yield from self.source.texts(names)

    def order(self, key: Sequence[int], epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch in the order of the source."""
        return self.source.order(key, epoch)

    def batches(
        self,
        batch_size: int,
        key: Sequence[int],
        epoch: int,
    ) -> list[NDArray[np.int64]]:
        """Return the rows of each batch of the source."""
        return self.source.batches(batch_size, key, epoch)
