"""Sampling of training batches, from which a stopped run can go on.

A data set says which rows an epoch has and in which order, as a function of the sampler's key and the epoch. So a
resumed run need not read the data that comes before its position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
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
        self._batch_size = batch_size
        self._distinct = distinct
        self._epoch = 0
        self._done = 0
        """Number of batches of the epoch that `next` has returned."""

        # Of distinct rows: the number of rows that were taken from the endless order of all epochs, and the
        # deferred ones, in order (a dictionary as an ordered set).
        self._position = 0
        self._deferred: dict[int, None] = {}

        # Positions ascend, so that only the epoch that is being read is needed again.
        self._order = lru_cache(maxsize=1)(partial(dataset.order, key))
        self._batches = lru_cache(maxsize=1)(partial(dataset.batches, batch_size, key))
        if distinct:
            rows = len(self._order(0))
            self._size = min(batch_size, rows)
            self.batches_an_epoch = 0
            if rows > 1:
                self.batches_an_epoch = rows // self._size
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
        if self._distinct:
            rows, columns = self._next_distinct()
        else:
            rows = self._batches(self._epoch)[self._done]
            columns = self.fetch(rows)
        self._done += 1
        return Batch(self._epoch, self._done, rows, columns)

    def state(self) -> dict[str, Any]:
        """Return the position of the sampler, as a table for JSON."""
        return {
            "epoch": self._epoch,
            "done": self._done,
            "position": self._position,
            "deferred": list(self._deferred),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the position of a sampler, which must have had the same data and arguments."""
        self._epoch = state["epoch"]
        self._done = state["done"]
        self._position = state["position"]
        self._deferred = dict.fromkeys(state["deferred"])

    def fetch(self, rows: NDArray[np.int64]) -> dict[str, Sequence[Any]]:
        """Return the values of rows in each column, as the data set gives them in the current epoch."""
        columns = self._dataset.rows(rows.tolist(), self._epoch)
        return {column: columns[column] for column in self._columns}

    def _next_distinct(self) -> tuple[NDArray[np.int64], dict[str, Sequence[Any]]]:
        """Return the rows of a batch without common texts, and their values in each column."""
        rows: list[int] = []
        values_of_rows = []
        texts_of_batch: set[str] = set()
        since_last_added = 0
        for row, values in self._candidates(rows):
            # A row that is deferred again moves to the end.
            self._deferred.pop(row, None)
            texts = set()
            for column, value in zip(self._columns, values, strict=True):
                if column != LABEL and isinstance(value, str):
                    texts.add(value)

            if texts_of_batch.isdisjoint(texts):
                texts_of_batch |= texts
                rows.append(row)
                values_of_rows.append(values)
                since_last_added = 0
                if len(rows) == self._size:
                    break
                continue

            self._deferred[row] = None
            since_last_added += 1
            if since_last_added > 3 * len(self._dataset):
                raise DataError(
                    f"a batch of {self._size} rows without a common text cannot be filled: a whole pass over "
                    f"the data found only {len(rows)} distinct rows, that share no text with each other; "
                    f"set `batch_size` to {len(rows)} or less, or `distinct = false`"
                )

        columns = zip(*values_of_rows, strict=True)
        return np.array(rows), dict(zip(self._columns, map(list, columns), strict=True))

    def _candidates(self, rows: Sequence[int]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield rows for a batch that has `rows` already, and their values: deferred ones, then further ones."""
        # Only some of them, since most rows of the data may be waiting if few texts are distinct.
        deferred = list(islice(self._deferred, 4 * self._batch_size))
        yield from self._with_values(deferred)

        rows_an_epoch = len(self._order(0))
        while True:
            missing = self._size - len(rows)
            epoch, start = divmod(self._position, rows_an_epoch)
            candidates = self._order(epoch)[start : start + missing]
            for row, values in self._with_values(candidates.tolist()):
                self._position += 1
                yield row, values

    def _with_values(self, rows: list[int]) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Return an iterator over rows and their values in each column."""
        if not rows:
            return iter(())
        columns = self.fetch(np.array(rows))
        values = zip(*columns.values(), strict=True)
        return zip(rows, values, strict=True)
