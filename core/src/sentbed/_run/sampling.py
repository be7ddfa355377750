"""The rows of each batch: shuffled, mixed and resumable.

Every order is a pure function of the sampler's key and a position, so that going on in the middle of a run
costs no pass over what precedes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from sentbed.errors import DataError
from sentbed.protocols import LABEL, Dataset, Mixture

# Generators that draw different things from one key are told apart by these. None is 0: NumPy's seeding gives
# `[a, b]` and `[a, b, 0]` the same stream.
_PART, _BLOCKS, _WINDOW, _TURNS = 1, 2, 3, 4

_BLOCKS_A_WINDOW = 32
"""From so many places of the data come the rows of one window of a bounded shuffle."""

_TURNS_AT_A_TIME = 1 << 16
"""The order of the parts of a mixture is held in memory for so many rows."""

_VAIN_AT_A_TIME = 4096
"""The most rows that are fetched at a time in search of one that fits."""


@attrs.frozen(eq=False)
class Batch:
    """The rows of one step."""

    epoch: int
    """Passes over the data before this one."""
    number: int
    """Of the batch in its epoch, from 1."""
    rows: NDArray[np.int64]
    """Numbers of the rows in the data set."""
    columns: Mapping[str, Sequence[str]]
    """Their texts, by column."""


class Sampler:
    """Batches of a data set, epoch after epoch without end.

    An epoch has every row once, in an order that `(*key, epoch)` decides; the rows of a mixture it takes as
    `Mixture` says, each part out of its own endless stream of permutations. A last batch of a single row has
    no negatives and is left out.

    Args:
        dataset: where the texts come from.
        columns: the columns whose texts are wanted.
        batch_size: rows of a full batch; all rows where there are fewer.
        key: seeds the order: (seed of the run, number of the stage).
        distinct: whether no two rows of a batch may share a text in any of `columns`. Rows are then drawn
            from one endless stream; one that clashes waits for a later batch.
        shuffle_buffer: rows that are shuffled at a time, in memory for that many; all where None. The data
            are cut into blocks, the blocks are shuffled, and then the rows of each window of that many rows.

    Raises:
        DataError: where a column is missing, or an epoch has no batch.
    """

    batches_an_epoch: int
    """How many batches an epoch has."""

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
        self._dataset, self._columns, self._batch_size = dataset, tuple(columns), batch_size
        self._distinct = distinct
        given = dataset.mixture
        mixture = given or Mixture((len(dataset),), (len(dataset),), in_turn=True, whole_batches=True)
        firsts = [0, *accumulate(mixture.sizes)]
        parts = [
            _Shuffled(first, rows, key, (_PART, part) if given else (), shuffle_buffer)
            for part, (first, rows) in enumerate(zip(firsts, mixture.sizes, strict=False))
        ]
        shares = zip(mixture.sizes, mixture.takes, strict=True)
        passes = [-(-size // take) + 1 if take else 1 for size, take in shares]
        if mixture.whole_batches:
            self._lanes = [_Lane(*lane) for lane in zip(parts, mixture.takes, passes, strict=True)]
        else:
            mixed = _Mixed(parts, _Turns(mixture.takes, key, mixture.in_turn))
            self._lanes = [_Lane(mixed, sum(mixture.takes), max(passes))]
        batches = [_batches(lane.rows, batch_size, distinct) for lane in self._lanes]
        self._turns = _Turns(batches, key, mixture.in_turn)
        self.batches_an_epoch = sum(batches)
        if not self.batches_an_epoch:
            raise DataError(
                f"the data gives {sum(mixture.takes)} row(s) an epoch, a batch needs at least 2; add data"
                + ("" if given is None else ", or give each source a larger share")
            )
        self._epoch = self._done = 0

    def next(self) -> Batch:
        """Return the next batch.

        Raises:
            DataError: where the source gives fewer rows than asked, or no rows without a common text.
        """
        if self._done >= self.batches_an_epoch:
            self._epoch, self._done = self._epoch + 1, 0
        lanes, ranks = self._turns.take(self._epoch, self._done, 1)
        lane, rank = self._lanes[lanes[0]], int(ranks[0])
        if self._distinct:
            rows, columns = self._next_distinct(lane)
        else:
            start = rank * self._batch_size
            count = min(self._batch_size, lane.rows - start)
            rows = lane.stream.take(self._epoch * lane.rows + start, count)
            columns = self._texts(rows)
        self._done += 1
        return Batch(self._epoch, self._done, rows, columns)

    def state(self) -> dict[str, Any]:
        """Return, as JSON, where the sampler stands."""
        return {
            "batches_an_epoch": self.batches_an_epoch,
            "epoch": self._epoch,
            "done": self._done,
            "lanes": [{"position": lane.position, "deferred": [*lane.deferred]} for lane in self._lanes],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go back to where a sampler of the same data, arguments and `state` stood.

        Raises:
            DataError: where the state is that of other data or another batch size.
        """
        found = (state["batches_an_epoch"], len(state["lanes"]))
        if found != (expected := (self.batches_an_epoch, len(self._lanes))):
            raise DataError(
                f"the state of the sampler has {found[0]} batches an epoch from {found[1]} stream(s), the "
                f"data now gives {expected[0]} from {expected[1]}; resume with the data and the batch size "
                "of the run that was saved"
            )
        self._epoch, self._done = state["epoch"], state["done"]
        for lane, saved in zip(self._lanes, state["lanes"], strict=True):
            lane.position, lane.deferred = saved["position"], dict.fromkeys(saved["deferred"])

    def _texts(self, rows: NDArray[np.int64]) -> dict[str, Sequence[str]]:
        found = self._dataset.rows(rows.tolist(), self._epoch)
        for column in self._columns:
            got = len(found.get(column, ()))
            if got != len(rows):
                raise DataError(
                    f"the source ran dry: asked for {len(rows)} rows of `{column}`, it gave {got}, in epoch "
                    f"{self._epoch + 1}, batch {self._done + 1} of {self.batches_an_epoch}; it must give all "
                    f"of its {len(self._dataset)} rows in every epoch: check that its files are complete and "
                    "have not changed"
                )
        return {column: found[column] for column in self._columns}

    def _next_distinct(self, lane: _Lane) -> tuple[NDArray[np.int64], Mapping[str, Sequence[str]]]:
        """Fill a batch with rows that share no text: first those that wait, then those of the stream."""
        wanted = min(self._batch_size, lane.rows)
        rows: list[int] = []
        columns: dict[str, list[str]] = {column: [] for column in self._columns}
        compared = [column for column in self._columns if column != LABEL]
        seen: set[str] = set()

        def admit(candidates: NDArray[np.int64]) -> int:
            """Let candidates in, or let them wait, until the batch is full; returns how many it looked at."""
            texts = self._texts(candidates)
            for place, row in enumerate(candidates.tolist()):
                if len(rows) == wanted:
                    return place
                # Out and in again: a row that has to wait longer goes behind those not looked at yet.
                lane.deferred.pop(row, None)
                own = {texts[column][place] for column in compared}
                if seen.isdisjoint(own):
                    seen.update(own)
                    rows.append(row)
                    for column, into in columns.items():
                        into.append(texts[column][place])
                else:
                    lane.deferred[row] = None
            return len(candidates)

        waiting = [*islice(lane.deferred, 4 * self._batch_size)]
        if waiting:
            admit(np.array(waiting))
        vain = 0
        while len(rows) < wanted:
            had = len(rows)
            # As many as are missing, so that none is fetched twice; more where they are hard to find.
            looked = admit(lane.stream.take(lane.position, max(wanted - had, min(vain, _VAIN_AT_A_TIME))))
            lane.position += looked
            vain = 0 if len(rows) > had else vain + looked
            if vain >= lane.passes * lane.rows:
                raise DataError(
                    f"a batch of {wanted} rows without a common text cannot be filled: a whole pass over the "
                    f"data found only {len(rows)} distinct rows, that share no text with each other; "
                    f"set `batch_size` to {len(rows)} or less, or `distinct = false`"
                )
        return np.array(rows), columns


@attrs.define
class _Lane:
    """A stream out of which batches are filled."""

    stream: _Shuffled | _Mixed
    rows: int
    """That an epoch takes."""
    passes: int
    """In so many epochs, wherever they begin, each row is drawn."""
    position: int = 0
    """Of the next row to look at; only where batches are distinct."""
    deferred: dict[int, None] = attrs.field(factory=dict)
    """Rows that wait, in order; only where batches are distinct."""


class _Shuffled:
    """An endless stream of a run of rows of the data set, in a new order in every pass."""

    def __init__(
        self, first: int, rows: int, key: Sequence[int], tag: tuple[int, ...], buffer: int | None
    ) -> None:
        self._first, self._rows, self._key, self._tag = first, rows, tuple(key), tag
        self._size = rows if buffer is None else min(rows, buffer)
        self._block = max(1, self._size // _BLOCKS_A_WINDOW)
        self._order = lru_cache(maxsize=1)(self._window)
        self._block_order = lru_cache(maxsize=1)(self._blocks)

    def take(self, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` rows from position `start` on."""
        pieces = []
        while count:
            number, position = divmod(start, self._rows)
            window, offset = divmod(position, self._size)
            pieces.append(self._order(number, window)[offset : offset + count])
            start, count = start + len(pieces[-1]), count - len(pieces[-1])
        return np.concatenate(pieces) + self._first

    def _window(self, number: int, window: int) -> NDArray[np.int64]:
        """The rows of a window of pass `number`, shuffled."""
        if self._size == self._rows:
            return np.random.default_rng([*self._key, number, *self._tag]).permutation(self._rows)
        block, (order, short) = self._block, self._block_order(number)
        position = np.arange(window * self._size, min((window + 1) * self._size, self._rows))
        # The last block of the data is shorter than the others: what stands behind it is as far from the
        # start as if it were not.
        end = short * block + (self._rows - 1) % block + 1
        position[position >= end] += (short + 1) * block - end
        rows = order[position // block] * block + position % block
        return np.random.default_rng([*self._key, number, _WINDOW, *self._tag, window]).permutation(rows)

    def _blocks(self, number: int) -> tuple[NDArray[np.int64], int]:
        """The order of the blocks in pass `number`, and where the last one of the data stands."""
        blocks = -(-self._rows // self._block)
        order = np.random.default_rng([*self._key, number, _BLOCKS, *self._tag]).permutation(blocks)
        return order, int(np.flatnonzero(order == blocks - 1)[0])


class _Mixed:
    """Several streams in one."""

    def __init__(self, parts: Sequence[_Shuffled], turns: _Turns) -> None:
        self._parts, self._turns = parts, turns

    def take(self, start: int, count: int) -> NDArray[np.int64]:
        """Return `count` rows from position `start` on."""
        takes = self._turns.counts
        rows = np.empty(count, np.int64)
        done = 0
        while done < count:
            epoch, offset = divmod(start + done, sum(takes))
            parts, ranks = self._turns.take(epoch, offset, min(count - done, sum(takes) - offset))
            into = rows[done : done + len(parts)]
            for part in np.unique(parts):
                # A part's ranks follow each other without a gap.
                mine = parts == part
                first = epoch * takes[part] + int(ranks[mine][0])
                into[mine] = self._parts[part].take(first, int(mine.sum()))
            done += len(parts)
        return rows


class _Turns:
    """Whose turn it is: an order of parts in which each comes up as often in an epoch as its count says."""

    def __init__(self, counts: Sequence[int], key: Sequence[int], in_turn: bool) -> None:
        self.counts, self._key = tuple(counts), tuple(key)
        self._in_turn = in_turn or len(counts) == 1
        self._shuffled = lru_cache(maxsize=1)(self._shuffle)
        self._drawn = lru_cache(maxsize=1)(self._draw)

    def take(self, epoch: int, start: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the part of each of `count` turns of an epoch, and the turn's rank within its part."""
        if self._in_turn:
            return self._alternating(np.arange(start, start + count))
        pieces = []
        while count:
            piece, offset = divmod(start, _TURNS_AT_A_TIME)
            pieces.append(self._shuffled(epoch, piece)[:, offset : offset + count])
            start, count = start + pieces[-1].shape[1], count - pieces[-1].shape[1]
        parts, ranks = np.concatenate(pieces, axis=1)
        return parts, ranks

    def _alternating(self, turns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Round after round over the parts that have turns left."""
        parts, ranks = np.empty_like(turns), np.empty_like(turns)
        start = rounds = 0
        for level in sorted({*self.counts} - {0}):
            left = np.flatnonzero(np.array(self.counts) >= level)
            end = start + (level - rounds) * len(left)
            here = (turns >= start) & (turns < end)
            parts[here] = left[(turns[here] - start) % len(left)]
            ranks[here] = rounds + (turns[here] - start) // len(left)
            start, rounds = end, level
        return parts, ranks

    def _shuffle(self, epoch: int, piece: int) -> NDArray[np.int64]:
        """One piece of an epoch's turns: parts and ranks, `(2, turns)`."""
        before, counts = self._drawn(epoch)
        rng = np.random.default_rng([*self._key, epoch, _TURNS, piece + 1])
        parts = rng.permutation(np.repeat(np.arange(len(self.counts)), counts[piece]))
        ranks = np.empty_like(parts)
        for part, count in enumerate(counts[piece]):
            ranks[parts == part] = before[piece, part] + np.arange(count)
        return np.stack([parts, ranks])

    def _draw(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many turns each part has before and in each piece of an epoch, `(pieces, parts)` both.

        The pieces are drawn one after the other without putting back, so that all orders are equally likely.
        """
        rng = np.random.default_rng([*self._key, epoch, _TURNS])
        left = np.array(self.counts)
        counts = []
        while total := int(left.sum()):
            drawn = left
            if total > _TURNS_AT_A_TIME:
                drawn = rng.multivariate_hypergeometric(left, _TURNS_AT_A_TIME, method="marginals")
            counts.append(drawn)
            left = left - drawn
        each = np.array(counts)
        return np.cumsum(each, axis=0) - each, each


def _batches(rows: int, batch_size: int, distinct: bool) -> int:
    """Batches of an epoch of so many rows; a last batch of a single row has no negatives and is left out."""
    if distinct:
        return max(int(rows > 1), rows // batch_size)
    return rows // batch_size + (rows % batch_size > 1)
