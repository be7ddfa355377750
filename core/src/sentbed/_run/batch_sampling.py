"""Sampling of training batches, from which a stopped run can go on.

A data set says which rows an epoch has and in which order, as a function of the sampler's key and the epoch. So a
resumed run need not read the data that comes before its position, unless no two rows of a batch may share a text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count, islice
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sentbed.errors import DataError
from sentbed.protocols import LABEL, Dataset


@attrs.frozen(eq=False)
class Batch:
    """The rows of one step."""

    epoch: int
    """Index of the pass over the data, from 0."""
    number: int
    """Number of the batch in its epoch, from 1."""
    rows: NDArray[np.int64]
    """Indices of the rows in the data set."""
    columns: Mapping[str, Sequence[Any]]
    """Values of the rows in each column: texts, classes or numbers."""


class Sampler:
    """Yields batches of a data set without end, epoch after epoch, as `Dataset.batches` returns them.

    Args:
        dataset: The data set.
        columns: Columns whose values batches have.
        batch_size: Number of rows of a batch; all rows if there are fewer.
        key: Seed of the order: the seed of the run, and the index of the stage.
        distinct: Whether no two rows of a batch may have a common text, in whatever columns. A row that shares a
            text with its batch is deferred to a later batch, perhaps of the next epoch.

    Raises:
        DataError: if a column is missing, or an epoch has no batch.
    """

    batches_an_epoch: int
    """Number of batches per epoch."""

    def __init__(
        self,
        dataset: Dataset,
        columns: Sequence[str],
        batch_size: int,
        key: Sequence[int],
        *,
        distinct: bool = False,
    ) -> None:
        missing = [column for column in columns if column not in dataset.columns]
        if missing:
            raise DataError(
                f"the data has no column `{missing[0]}`; it has {', '.join(dataset.columns)}; "
                "name another column, or choose another data source"
            )
        self._dataset = dataset
        self._columns = tuple(columns)
        self._key = key
        self._epoch = 0
        self._done = 0
        """Number of batches of the epoch that `next` has returned."""
        self._distinct: Iterator[list[int]] | None = None

        # Positions ascend, so that only the epoch that is being read is needed again.
        self._batches = lru_cache(maxsize=1)(partial(dataset.batches, batch_size, key))
        if distinct:
            rows = len(dataset.order(key, 0))
            size = min(batch_size, rows)
            self.batches_an_epoch = 0
            if rows > 1:
                self.batches_an_epoch = rows // size
            self._distinct = self._distinct_batches(size, 4 * batch_size)
        else:
            self.batches_an_epoch = len(self._batches(0))
        if not self.batches_an_epoch:
            raise DataError(
                f"{len(dataset)} row(s) of data have no batch of at least 2; add data, or give each source of a "
                "mix a larger share"
            )

    def next(self) -> Batch:
        """Return the next batch.

        Raises:
            DataError: if there are too few rows without a common text to fill the batch.
        """
        if self._done >= self.batches_an_epoch:
            self._epoch += 1
            self._done = 0
        if self._distinct is None:
            rows = self._batches(self._epoch)[self._done]
        else:
            rows = np.array(next(self._distinct))
        self._done += 1
        return Batch(self._epoch, self._done, rows, self.fetch(rows))

    def state(self) -> dict[str, int]:
        """Return the position of the sampler, as a table for JSON."""
        return {"epoch": self._epoch, "done": self._done}

    def restore(self, state: Mapping[str, int]) -> None:
        """Restore the position of another sampler with the same data and arguments; this one must be new."""
        if self._distinct is None:
            self._epoch = state["epoch"]
            self._done = state["done"]
        while self.state() != state:
            self.next()

    def fetch(self, rows: NDArray[np.int64]) -> dict[str, Sequence[Any]]:
        """Return the values of rows in each column, as the data set gives them in the current epoch."""
        columns = self._dataset.rows(rows.tolist(), self._epoch)
        return {column: columns[column] for column in self._columns}

    def _distinct_batches(self, size: int, most_tried: int) -> Iterator[list[int]]:
        """Yield the rows of batches of `size` without common texts, without end.

        A row that shares a text with its batch waits for a later one. Only the first `most_tried` of the waiting
        rows are tried for a batch, since most rows of the data may be waiting if few texts are distinct.
        """
        further = self._rows_of_all_epochs()
        # A dictionary as an ordered set: a row waits only once, even if its next epoch has begun.
        waiting: dict[int, None] = {}
        while True:
            rows: list[int] = []
            texts_of_batch: set[str] = set()
            since_last_added = 0
            candidates = list(islice(waiting, most_tried))
            while len(rows) < size:
                for row, texts in self._with_texts(candidates):
                    waiting.pop(row, None)
                    if texts_of_batch.isdisjoint(texts):
                        texts_of_batch |= texts
                        rows.append(row)
                        since_last_added = 0
                    else:
                        waiting[row] = None
                        since_last_added += 1
                        self._require_end_of_search(size, len(rows), since_last_added)
                    if len(rows) == size:
                        break
                candidates = list(islice(further, size - len(rows)))

            yield rows

    def _require_end_of_search(self, size: int, rows: int, in_vain: int) -> None:
        """Raise `DataError` if more than three epochs of rows were tried in vain for a batch of `size` rows."""
        if in_vain > 3 * len(self._dataset):
            raise DataError(
                f"a batch of {size} rows without a common text cannot be filled: a whole pass over the data "
                f"found only {rows} distinct rows, that share no text with each other; set `batch_size` to "
                f"{rows} or less, or `distinct = false`"
            )

    def _rows_of_all_epochs(self) -> Iterator[int]:
        """Yield the rows of all epochs in order, without end."""
        for epoch in count():
            for row in self._dataset.order(self._key, epoch):
                yield int(row)

    def _with_texts(self, rows: list[int]) -> Iterator[tuple[int, set[str]]]:
        """Yield rows, each with its texts in all columns in the current epoch."""
        if not rows:
            return
        columns = self.fetch(np.array(rows))
        columns.pop(LABEL, None)
        for row, values in zip(rows, zip(*columns.values(), strict=True), strict=True):
            yield row, {value for value in values if isinstance(value, str)}
