"""Sampling of training batches, from which a stopped run can go on.

A data set says which rows an epoch has and in which order, as a function of the sampler's key and the epoch. So a
resumed run need not read the data of earlier epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sentbed._encoder.batching import WINDOW
from sentbed.errors import DataError
from sentbed.protocols import LABEL, Dataset

MOST_UNFINISHED = 8
"""Number of batches without a common text that are filled at the same time."""


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
        distinct: Whether no two rows of a batch may have a common text, in whatever columns; see
            `distinct_batches`.

    Raises:
        DataError: if a column is missing, or an epoch has no batch.
    """

    batches_an_epoch: int
    """Number of batches of the first epoch."""

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
        self._key = key
        self._distinct = distinct
        self._epoch = 0
        self._done = 0
        """Number of batches of the epoch that `next` has returned."""
        self._batches = self._batches_of_epoch()
        self.batches_an_epoch = len(self._batches)

    def _batches_of_epoch(self) -> Sequence[NDArray[np.int64]]:
        """Return the rows of each batch of the current epoch. Raises `DataError` if there is none."""
        if self._distinct:
            order = self._dataset.order(self._key, self._epoch)
            batch_size = min(self._batch_size, max(2, len(order)))
            batches = distinct_batches(self._with_texts(order), batch_size)
        else:
            batches = self._dataset.batches(self._batch_size, self._key, self._epoch)
        if not batches:
            raise DataError(
                f"{len(self._dataset)} row(s) of data fill no batch; add data, give each source of a mix a "
                "larger share, lower `batch_size`, or take `distinct` out"
            )
        return batches

    def next(self) -> Batch:
        """Return the next batch."""
        if self._done == len(self._batches):
            self._epoch += 1
            self._done = 0
            self._batches = self._batches_of_epoch()
        rows = self._batches[self._done]
        self._done += 1
        return Batch(self._epoch, self._done, rows, self.fetch(rows))

    def state(self) -> dict[str, int]:
        """Return the position of the sampler, as a table for JSON."""
        return {"epoch": self._epoch, "done": self._done}

    def restore(self, state: Mapping[str, int]) -> None:
        """Restore the position of another sampler with the same data and arguments."""
        self._epoch = state["epoch"]
        self._done = state["done"]
        self._batches = self._batches_of_epoch()

    def fetch(self, rows: NDArray[np.int64]) -> dict[str, Sequence[Any]]:
        """Return the values of rows in each column, as the data set gives them in the current epoch."""
        columns = self._dataset.rows(rows.tolist(), self._epoch)
        return {column: columns[column] for column in self._columns}

    def _with_texts(
        self, order: NDArray[np.int64]
    ) -> Iterator[tuple[int, frozenset[str]]]:
        """Yield rows in order, each with its texts in all columns in the current epoch."""
        for start in range(0, len(order), WINDOW):
            rows = order[start : start + WINDOW]
            columns = self.fetch(rows)
            columns.pop(LABEL, None)
            values_of_rows = zip(*columns.values(), strict=True)
            for row, values in zip(rows.tolist(), values_of_rows, strict=True):
                texts = [value for value in values if isinstance(value, str)]
                yield row, frozenset(texts)


def distinct_batches(
    rows: Iterable[tuple[int, frozenset[str]]],
    batch_size: int,
) -> list[NDArray[np.int64]]:
    """Return batches of `batch_size` rows without a common text.

    A row comes into the first of a few unfinished batches in which no row has one of its texts. A row for which
    there is none is left out, and so are the rows of batches that are not full at the end.
    """
    batches: list[NDArray[np.int64]] = []
    unfinished: list[_UnfinishedBatch] = []
    for row, texts in rows:
        batch = _first_without(unfinished, texts)
        if batch is None:
            if len(unfinished) == MOST_UNFINISHED:
                continue
            batch = _UnfinishedBatch()
            unfinished.append(batch)

        batch.rows.append(row)
        batch.texts.update(texts)
        if len(batch.rows) == batch_size:
            batches.append(np.array(batch.rows))
            unfinished.remove(batch)
    return batches


@attrs.define(eq=False)
class _UnfinishedBatch:
    """Rows without a common text, and all their texts."""

    rows: list[int] = attrs.field(factory=list)
    texts: set[str] = attrs.field(factory=set)


def _first_without(
    batches: Iterable[_UnfinishedBatch],
    texts: frozenset[str],
) -> _UnfinishedBatch | None:
    """Return the first batch that has none of the texts; None if all have one."""
    for batch in batches:
        if batch.texts.isdisjoint(texts):
            return batch
    return None
