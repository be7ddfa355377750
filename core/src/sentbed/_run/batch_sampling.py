"""Sampling of training batches: rows are shuffled, several parts are mixed, and sampling can be resumed.

Every order is a pure function of the sampler's key and a position. So a resumed run need not read the data that
comes before its position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sentbed.errors import DataError
from sentbed.protocols import LABEL, Dataset, Mixture

# Tags that make generators with the same key differ. They are not 0, since the seeds `[a, b]` and `[a, b, 0]`
# give the same random numbers in NumPy.
_PART, _BLOCKS, _WINDOW, _TURNS = 1, 2, 3, 4

LARGEST_POSITION = 1 << 40
"""Largest epoch number or stream position that `Sampler.restore` accepts; no training reaches it."""

_BLOCKS_PER_WINDOW = 32
"""Number of blocks of adjacent rows in each window; see `shuffle_buffer` of `Sampler`."""

_TURNS_AT_A_TIME = 1 << 16
"""Number of turns (see `_Turns`) whose order is drawn, and is in memory, at a time."""

_MOST_CANDIDATES = 4096
"""Largest number of rows to read at a time in search of a row that shares no text with the batch."""


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
    """Yields batches of a data set without end, epoch after epoch.

    An epoch has every row once, in an order that `(*key, epoch)` determines. If the data set is a mixture, an
    epoch has `Mixture.takes` rows of each part instead. They come from an endless stream of shuffled passes over
    the part. A last batch of a single row is dropped, since it has no negatives.

    Args:
        dataset: The data set.
        columns: Columns whose values batches have.
        batch_size: Number of rows of a batch; all rows if there are fewer.
        key: Seed of the order: the seed of the run, and the index of the stage.
        distinct: Whether no two rows of a batch may have a common text, in whatever columns. A row that shares a
            text with its batch is deferred to a later batch, perhaps of the next epoch.
        shuffle_buffer: Number of rows that are shuffled, and whose order is in memory, at a time; None means all
            rows. First, blocks of adjacent rows are shuffled as wholes. Then the result is cut into windows of
            `shuffle_buffer` rows, and the rows of each window are shuffled.

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
        shuffle_buffer: int | None = None,
    ) -> None:
        if missing := [column for column in columns if column not in dataset.columns]:
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

        size = len(dataset)
        mixture = dataset.mixture or Mixture(
            (size,), (size,), in_turn=True, whole_batches=True
        )
        lanes = []
        first = 0
        for part, rows in enumerate(mixture.sizes):
            tag = (_PART, part) if dataset.mixture else ()
            stream = _Shuffled(first, rows, key, tag, shuffle_buffer)
            first += rows
            taken = mixture.takes[part]
            passes = -(-rows // taken) + 1 if taken else 1
            lanes.append(_Lane(stream, taken, passes))
        # If all rows of a batch come from one part, there is a lane for each part. Otherwise, the parts are
        # mixed into one lane.
        if not mixture.whole_batches:
            streams = [lane.stream for lane in lanes]
            mixed = _Mixed(streams, _Turns(mixture.takes, key, mixture.in_turn))
            passes = max(lane.passes for lane in lanes)
            lanes = [_Lane(mixed, sum(mixture.takes), passes)]
        self._lanes = lanes

        batches = [_count_batches(lane.rows, batch_size, distinct) for lane in lanes]
        self._lane_turns = _Turns(batches, key, mixture.in_turn)
        self.batches_an_epoch = sum(batches)
        if not self.batches_an_epoch:
            rows = sum(mixture.takes)
            message = f"the data gives {rows} row(s) an epoch, a batch needs at least 2; add data"
            if dataset.mixture is not None:
                message += ", or give each source a larger share"
            raise DataError(message)

    def next(self) -> Batch:
        """Return the next batch.

        Raises:
            DataError: if the source returns too few rows, or there are too few rows without a common text to
                fill the batch.
        """
        if self._done >= self.batches_an_epoch:
            self._epoch += 1
            self._done = 0
        lanes, ranks = self._lane_turns.take(self._epoch, self._done, 1)
        lane = self._lanes[lanes[0]]
        if self._distinct:
            rows, columns = self._next_distinct(lane)
        else:
            start = int(ranks[0]) * self._batch_size
            count = min(self._batch_size, lane.rows - start)
            rows = lane.stream.take(self._epoch * lane.rows + start, count)
            columns = self.fetch(rows)
        self._done += 1
        return Batch(self._epoch, self._done, rows, columns)

    def state(self) -> dict[str, Any]:
        """Return the position of the sampler, as a table for JSON."""
        lanes = []
        for lane in self._lanes:
            lanes.append({"position": lane.position, "deferred": list(lane.deferred)})
        return {
            "batches_an_epoch": self.batches_an_epoch,
            "epoch": self._epoch,
            "done": self._done,
            "lanes": lanes,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the position of a sampler, which must have had the same data and arguments.

        Raises:
            DataError: if the state is from other data or another batch size, or has an invalid position.
        """
        batches, streams = state["batches_an_epoch"], len(state["lanes"])
        if (batches, streams) != (self.batches_an_epoch, len(self._lanes)):
            raise DataError(
                f"the state of the sampler has {batches} batches an epoch from {streams} stream(s), the "
                f"data now gives {self.batches_an_epoch} from {len(self._lanes)}; resume with the data and "
                "the batch size of the run that was saved"
            )
        _require_position("epoch", state["epoch"], LARGEST_POSITION)
        _require_position("done", state["done"], self.batches_an_epoch)
        self._epoch = state["epoch"]
        self._done = state["done"]
        for lane, saved in zip(self._lanes, state["lanes"], strict=True):
            _require_position("position", saved["position"], LARGEST_POSITION)
            for row in saved["deferred"]:
                _require_position("deferred", row, len(self._dataset) - 1)
            lane.position = saved["position"]
            lane.deferred = dict.fromkeys(saved["deferred"])

    def fetch(self, rows: NDArray[np.int64]) -> dict[str, Sequence[Any]]:
        """Return the values of rows in each column, as the data set gives them in the current epoch.

        Raises:
            DataError: if the source returns too few values.
        """
        columns = self._dataset.rows(rows.tolist(), self._epoch)
        for column in self._columns:
            count = len(columns.get(column, ()))
            if count != len(rows):
                raise DataError(
                    f"the source ran dry: asked for {len(rows)} rows of `{column}`, it gave {count}, in "
                    f"epoch {self._epoch + 1}, batch {self._done + 1} of {self.batches_an_epoch}; it must "
                    f"give all of its {len(self._dataset)} rows in every epoch: check that its files are "
                    "complete and have not changed"
                )
        return {column: columns[column] for column in self._columns}

    def _next_distinct(
        self, lane: _Lane
    ) -> tuple[NDArray[np.int64], Mapping[str, Sequence[str]]]:
        """Return the rows of a batch without common texts, and their values in each column.

        Deferred rows are tried first, then rows of the stream.
        """
        size = min(self._batch_size, lane.rows)
        batch = _DistinctRows(size, self._columns)
        # Only some of them, since most rows of the data may be waiting if few texts are distinct.
        deferred = list(islice(lane.deferred, 4 * self._batch_size))
        if deferred:
            batch.add(deferred, self.fetch(np.array(deferred)), lane.deferred)

        since_last_added = 0
        while len(batch.rows) < size:
            missing = size - len(batch.rows)
            # Usually, only as many rows as are missing are read, so that no row is read twice. If suitable rows
            # are rare, more are read at a time.
            count = max(missing, min(since_last_added, _MOST_CANDIDATES))
            candidates = lane.stream.take(lane.position, count)
            texts = self.fetch(candidates)
            processed = batch.add(candidates.tolist(), texts, lane.deferred)
            lane.position += processed
            since_last_added += processed
            if size - len(batch.rows) < missing:
                since_last_added = 0
            if since_last_added >= lane.passes * lane.rows:
                distinct = len(batch.rows)
                raise DataError(
                    f"a batch of {size} rows without a common text cannot be filled: a whole pass over the "
                    f"data found only {distinct} distinct rows, that share no text with each other; "
                    f"set `batch_size` to {distinct} or less, or `distinct = false`"
                )
        return np.array(batch.rows), batch.columns


class _DistinctRows:
    """A batch of `size` rows, no two of which have a common text."""

    def __init__(self, size: int, columns: Sequence[str]) -> None:
        self._size = size
        self.rows: list[int] = []
        self.columns: dict[str, list[str]] = {column: [] for column in columns}
        self._texts: set[str] = set()

    def add(
        self,
        candidates: Sequence[int],
        columns: Mapping[str, Sequence[Any]],
        deferred: dict[int, None],
    ) -> int:
        """Add candidates until the batch is full; return how many were added or deferred.

        A candidate with a text that is in the batch already is added to `deferred` instead. `columns` has the
        values of the candidates.
        """
        for index, row in enumerate(candidates):
            if len(self.rows) == self._size:
                return index

            # A row that is deferred again moves to the end.
            deferred.pop(row, None)
            texts = set()
            for column, values in columns.items():
                if column != LABEL and isinstance(values[index], str):
                    texts.add(values[index])
            if not self._texts.isdisjoint(texts):
                deferred[row] = None
                continue

            self._texts |= texts
            self.rows.append(row)
            for column, values in columns.items():
                self.columns[column].append(values[index])
        return len(candidates)


@attrs.define
class _Lane:
    """A stream of rows from which batches are filled."""

    stream: _Shuffled | _Mixed
    rows: int
    """Number of rows per epoch."""
    passes: int
    """Number of successive epochs that together have every row at least once."""
    position: int = 0
    """Position in the stream of the next row; used only if the rows of a batch must be distinct."""
    deferred: dict[int, None] = attrs.field(factory=dict)
    """Deferred rows, in order (a dictionary as an ordered set); used only if rows must be distinct."""


class _Shuffled:
    """Endless stream of passes over adjacent rows; each pass has another order.

    There are `rows` rows, and the first of them has the index `first`. `tag` distinguishes streams with the same
    `key`. `buffer` is the number of rows to shuffle at a time; None means all.
    """

    def __init__(
        self,
        first: int,
        rows: int,
        key: Sequence[int],
        tag: tuple[int, ...],
        buffer: int | None,
    ) -> None:
        self._first = first
        self._rows = rows
        self._key = tuple(key)
        self._tag = tag
        self._size = rows if buffer is None else min(rows, buffer)
        self._block = max(1, self._size // _BLOCKS_PER_WINDOW)
        # Positions ascend, so that only the window that is being read is needed again.
        self._order = lru_cache(maxsize=1)(self._window)
        self._block_order = lru_cache(maxsize=1)(self._blocks)

    def take(self, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` rows, from position `start` of the stream on."""
        pieces = []
        while count:
            number, position = divmod(start, self._rows)
            window, offset = divmod(position, self._size)
            piece = self._order(number, window)[offset : offset + count]
            pieces.append(piece)
            start += len(piece)
            count -= len(piece)
        return np.concatenate(pieces) + self._first

    def _window(self, number: int, window: int) -> NDArray[np.int64]:
        """Return the shuffled rows of a window, in pass `number` over the rows."""
        if self._size == self._rows:
            rng = np.random.default_rng([*self._key, number, *self._tag])
            return rng.permutation(self._rows)

        block = self._block
        order, place_of_last = self._block_order(number)
        start = window * self._size
        position = np.arange(start, min(start + self._size, self._rows))
        # The last block of the rows may be short, and may be anywhere in the shuffled order. Positions after it
        # are shifted as if it were full, so that `position // block` gives the block of a position.
        end = place_of_last * block + (self._rows - 1) % block + 1
        position[position >= end] += (place_of_last + 1) * block - end
        rows = order[position // block] * block + position % block
        rng = np.random.default_rng([*self._key, number, _WINDOW, *self._tag, window])
        return rng.permutation(rows)

    def _blocks(self, number: int) -> tuple[NDArray[np.int64], int]:
        """Return the order of the blocks in pass `number`, and the position of the last block in this order."""
        blocks = -(-self._rows // self._block)
        rng = np.random.default_rng([*self._key, number, _BLOCKS, *self._tag])
        order = rng.permutation(blocks)
        return order, int(np.flatnonzero(order == blocks - 1)[0])


class _Mixed:
    """Endless stream that mixes the streams of several parts, in the order of `turns`."""

    def __init__(self, parts: Sequence[_Shuffled | _Mixed], turns: _Turns) -> None:
        self._parts = parts
        self._turns = turns

    def take(self, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` rows, from position `start` of the stream on."""
        takes = self._turns.counts
        total = sum(takes)
        rows = np.empty(count, np.int64)
        done = 0
        while done < count:
            epoch, offset = divmod(start + done, total)
            turns = min(count - done, total - offset)
            parts, ranks = self._turns.take(epoch, offset, turns)
            rows_of_epoch = rows[done : done + turns]
            for part in np.unique(parts):
                is_part = parts == part
                # The ranks of a part's turns follow each other, so they are one slice of its stream.
                first = epoch * takes[part] + int(ranks[is_part][0])
                stream = self._parts[part]
                rows_of_epoch[is_part] = stream.take(first, int(is_part.sum()))
            done += turns
        return rows


class _Turns:
    """The order in which parts have turns in an epoch. Part i has `counts[i]` turns.

    A turn is a row of the part, or a batch of it.
    """

    def __init__(
        self,
        counts: Sequence[int],
        key: Sequence[int],
        in_turn: bool,
    ) -> None:
        self.counts = tuple(counts)
        self._key = tuple(key)
        self._in_turn = in_turn or len(counts) == 1
        self._shuffled = lru_cache(maxsize=1)(self._shuffle)
        self._drawn = lru_cache(maxsize=1)(self._draw)

    def take(
        self,
        epoch: int,
        start: int,
        count: int,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the part of each turn, and the rank of the turn among those of this part.

        The turns are `count` in number, from turn `start` of the epoch on.
        """
        if self._in_turn:
            return self._alternating(np.arange(start, start + count))
        pieces = []
        while count:
            number, offset = divmod(start, _TURNS_AT_A_TIME)
            piece = self._shuffled(epoch, number)[:, offset : offset + count]
            pieces.append(piece)
            start += piece.shape[1]
            count -= piece.shape[1]
        parts, ranks = np.concatenate(pieces, axis=1)
        return parts, ranks

    def _alternating(
        self, turns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the parts and ranks of turns if the parts alternate, until a part has had all of its turns."""
        parts, ranks = np.empty_like(turns), np.empty_like(turns)
        start = 0
        rounds = 0
        # In each round, every part that has turns left has one. From one distinct count to the next, the rounds
        # have the same parts.
        for count in sorted({*self.counts} - {0}):
            active_parts = np.flatnonzero(np.array(self.counts) >= count)
            end = start + (count - rounds) * len(active_parts)
            in_these_rounds = (turns >= start) & (turns < end)
            round_number, position = divmod(
                turns[in_these_rounds] - start, len(active_parts)
            )
            parts[in_these_rounds] = active_parts[position]
            ranks[in_these_rounds] = rounds + round_number
            start = end
            rounds = count
        return parts, ranks

    def _shuffle(self, epoch: int, piece: int) -> NDArray[np.int64]:
        """Return the parts and ranks of the turns in one piece of an epoch, `(2, turns)`."""
        before, counts = self._drawn(epoch)
        rng = np.random.default_rng([*self._key, epoch, _TURNS, piece + 1])
        parts = rng.permutation(np.repeat(np.arange(len(self.counts)), counts[piece]))
        ranks = np.empty_like(parts)
        for part, count in enumerate(counts[piece]):
            ranks[parts == part] = before[piece, part] + np.arange(count)
        return np.stack([parts, ranks])

    def _draw(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many turns each part has before each piece of an epoch, and how many within the piece.

        Both arrays are `(pieces, parts)`. A piece has `_TURNS_AT_A_TIME` turns; the last may be shorter.

        The turns of each piece are drawn from those that are left, so that all orders of an epoch are equally
        likely.
        """
        rng = np.random.default_rng([*self._key, epoch, _TURNS])
        turns_left = np.array(self.counts)
        pieces = []
        while total := int(turns_left.sum()):
            piece = turns_left
            if total > _TURNS_AT_A_TIME:
                piece = rng.multivariate_hypergeometric(
                    turns_left, _TURNS_AT_A_TIME, method="marginals"
                )
            pieces.append(piece)
            turns_left = turns_left - piece
        counts = np.array(pieces)
        return np.cumsum(counts, axis=0) - counts, counts


def _require_position(
    name: str,
    value: object,
    largest: int,
) -> None:
    """Raise `DataError` if a position in the state of a sampler is not an integer from 0 to `largest`."""
    if type(value) is not int or not 0 <= value <= largest:
        raise DataError(
            f"the state of the sampler has the position `{name}` {value!r:.80}, expected a whole number from "
            f"0 to {largest}; go on from an older state, or start a new run"
        )


def _count_batches(
    rows: int,
    batch_size: int,
    distinct: bool,
) -> int:
    """Return the number of batches in an epoch of `rows` rows.

    A last batch of a single row is not counted. If rows must be distinct, a last batch that is not full is not
    counted either, unless it is the only one.
    """
    full, rest = divmod(rows, batch_size)
    if distinct and not full:
        return int(rows > 1)
    if distinct or rest <= 1:
        return full
    return full + 1
