"""The source `mix`: several sources mixed into one."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
from attrs.validators import min_len
from sentbed import DataError
from sentbed.protocols import Dataset, DataSource, cut_into_batches

from sentbed_data.columns_and_counts import chosen_columns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Tags that make generators with the same key differ. They are not 0, since the seeds `[a, b]` and `[a, b, 0]`
# give the same random numbers in NumPy.
_PART, _TURNS = 1, 4

_PIECE = 1 << 16
"""Number of turns that are shuffled at a time."""


@attrs.frozen(kw_only=True)
class Mix(DataSource):
    """Several sources in one stage, with their common columns only; an epoch has every row of each, shuffled."""

    name: ClassVar[str] = "mix"

    sources: tuple[DataSource, ...] = attrs.field(validator=min_len(2))
    """The sources, at least two: `[{ use = "pairs", ... }, { use = "triplets", ... }]`."""
    batches: Literal["mixed", "single"] = "mixed"
    """`mixed`: a batch may have rows of several sources. `single`: all rows of a batch, and so its in-batch
    negatives, are from one source."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that all sources have."""
        first, *others = self.sources
        common = set(first.columns)
        for source in others:
            common.intersection_update(source.columns)

        columns = []
        for column in first.columns:
            if column in common:
                columns.append(column)

        return tuple(columns)

    @property
    def numbers(self) -> frozenset[str]:
        """The columns of numbers that all sources have."""
        return super().numbers.intersection(self.columns)

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        if not self.columns:
            descriptions = []
            for source in self.sources:
                columns = ", ".join(source.columns)
                descriptions.append(f"`{source.name}` has {columns}")

            each = "; ".join(descriptions)
            yield f"the sources have no column in common: {each}; mix sources of one kind"

        for column in sorted(self.numbers):
            with_texts = []
            for source in self.sources:
                if column not in source.numbers:
                    with_texts.append(source.name)

            if with_texts:
                yield (
                    f"the column `{column}` holds texts in the source `{with_texts[0]}`, and numbers in "
                    "another; mix sources of one kind"
                )

        for source in self.sources:
            if isinstance(source, Mix) and source.batches == "single":
                yield (
                    'a source of the mix is a mix with `batches = "single"`, which would not be kept; '
                    "put all sources into one mix"
                )

    def open(self) -> Mixed:
        """Open every source. Raises `DataError` if a source cannot be read or has no rows."""
        parts = []
        for number, source in enumerate(self.sources, 1):
            part = source.open()
            if not len(part):
                raise DataError(
                    f"source {number} of the mix, `{source.name}`, has no rows; take it out"
                )

            parts.append(part)

        return Mixed(self.columns, tuple(parts), self.batches == "single")


@attrs.frozen(eq=False)
class Mixed(Dataset):
    """A concatenation of data sets: first all rows of the first part, then those of the second, and so on."""

    columns: tuple[str, ...]
    """Columns that every part has."""
    parts: tuple[Dataset, ...]
    single: bool = False
    """Whether all rows of a batch come from one part."""
    _starts: tuple[int, ...] = attrs.field(init=False)

    @_starts.default
    def _starts_of_parts(self) -> tuple[int, ...]:
        sizes = [len(part) for part in self.parts]
        return tuple(accumulate(sizes, initial=0))

    @property
    def varies(self) -> bool:
        """Whether the texts of any part change from epoch to epoch."""
        return any(part.varies for part in self.parts)

    @property
    def left_out(self) -> dict[str, int]:
        """Number of rows that the parts left out, by reason."""
        counts: Counter[str] = Counter()
        for part in self.parts:
            counts.update(part.left_out)

        return dict(counts)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the parts' fingerprints, the columns and how batches are made."""
        fingerprints = [part.fingerprint for part in self.parts]
        described = repr((fingerprints, self.columns, self.single))

        return hashlib.sha256(described.encode()).hexdigest()

    def __len__(self) -> int:
        return self._starts[-1]

    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the values of these rows in an epoch, by column."""
        # Positions in the result of the rows that each part has.
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, index in enumerate(indices):
            number = bisect_right(self._starts, index) - 1
            places[number].append(place)

        mixed: dict[str, list[Any]] = {}
        for column in self.columns:
            mixed[column] = [""] * len(indices)

        for number, places_of_part in sorted(places.items()):
            start = self._starts[number]
            rows = []
            for place in places_of_part:
                rows.append(indices[place] - start)

            values = self.parts[number].rows(rows, epoch)

            for column, mixed_values in mixed.items():
                for place, value in zip(places_of_part, values[column], strict=True):
                    mixed_values[place] = value

        return mixed

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, part by part."""
        for part in self.parts:
            yield from part.texts(chosen_columns(self.columns, columns))

    def batches(
        self,
        batch_size: int,
        key: Sequence[int],
        epoch: int,
    ) -> list[NDArray[np.int64]]:
        """Return the rows of each batch of an epoch."""
        if not self.single:
            return super().batches(batch_size, key, epoch)

        counts = []
        remaining = []
        for number in range(len(self.parts)):
            rows = self._rows_of_part(number, key, epoch)
            batches = cut_into_batches(rows, batch_size)
            counts.append(len(batches))
            remaining.append(iter(batches))

        in_order = []
        for number in self._turns(counts, key, epoch):
            in_order.append(next(remaining[number]))

        return in_order

    def order(self, key: Sequence[int], epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch, mixed. Raises `DataError` if all rows of a batch come from one part."""
        import numpy as np

        if self.single:
            raise DataError(
                'a mix with `batches = "single"` has no order of rows for `distinct` batches; '
                'remove `distinct`, or choose `batches = "mixed"`'
            )

        sizes = [len(part) for part in self.parts]
        parts = self._turns(sizes, key, epoch)
        rows = np.empty(len(parts), np.int64)
        for number in range(len(self.parts)):
            rows[parts == number] = self._rows_of_part(number, key, epoch)

        return rows

    def _rows_of_part(
        self,
        number: int,
        key: Sequence[int],
        epoch: int,
    ) -> NDArray[np.int64]:
        """Return the rows of a part, shuffled."""
        import numpy as np

        rng = np.random.default_rng([*key, epoch, _PART, number])
        return rng.permutation(len(self.parts[number])) + self._starts[number]

    def _turns(
        self,
        counts: Sequence[int],
        key: Sequence[int],
        epoch: int,
    ) -> NDArray[np.int64]:
        """Return the number of the part of each turn of an epoch; part i has `counts[i]` turns: rows, or batches.

        They are drawn in pieces, each from the turns that are left, so that all orders are equally likely.
        """

        import numpy as np

        rng = np.random.default_rng([*key, epoch, _TURNS])
        left = np.array(counts)
        pieces: list[NDArray[np.int64]] = []
        while left.sum() > 0:
            in_piece = left
            if left.sum() > _PIECE:
                in_piece = rng.multivariate_hypergeometric(
                    left, _PIECE, method="marginals"
                )

            left = left - in_piece
            parts = np.repeat(np.arange(len(left)), in_piece)
            seed = [*key, epoch, _TURNS, len(pieces) + 1]
            pieces.append(np.random.default_rng(seed).permutation(parts))

        return np.concatenate(pieces)
