"""Several sources mixed into one."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Literal

import attrs
from attrs.validators import deep_iterable, ge, gt, min_len, optional
from sentbed import DataError
from sentbed.protocols import Dataset, DataSource, DataTraits, Mixture

from sentbed_data.filtered_table import chosen_columns


@attrs.frozen(kw_only=True)
class Mix(DataSource):
    """Several sources in one stage, each with a share of the rows, in their common columns.

    Each source is shuffled by itself and continues in the next epoch, so that a source whose share is below
    its size is used up completely before a row is repeated.
    """

    name: ClassVar[str] = "mix"

    sources: tuple[DataSource, ...] = attrs.field(validator=min_len(2))
    """The sources, at least two: `[{ use = "pairs", ... }, { use = "triplets", ... }]`."""
    strategy: Literal["proportional", "round-robin", "temperature", "weights"] = (
        "proportional"
    )
    """How the shares are chosen. `proportional`: by size, so that an epoch has every row once. `round-robin`:
    equal, in strict turn. `temperature`: by size ** (1 / temperature). `weights`: those given."""
    temperature: float | None = attrs.field(default=None, validator=optional(ge(1.0)))
    """Temperature for `strategy = "temperature"`, at least 1; 1 is proportional, higher values are more
    uniform."""
    weights: tuple[float, ...] = attrs.field(
        default=(), validator=deep_iterable(gt(0.0))
    )
    """Weights for `strategy = "weights"`: one number above 0 for each source; only their ratios count."""
    repeat: bool = True
    """Whether a source with fewer rows than its share starts again within an epoch. An epoch then has as many
    rows as all sources have (with `round-robin`, as many of each as the largest has). If false, it ends
    before any source would have to start again."""
    batches: Literal["mixed", "single"] = "mixed"
    """`mixed`: a batch has rows of several sources. `single`: all rows of a batch, and so its negatives, come
    from one source."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that all sources have."""
        first, *others = self.sources
        common = set(first.columns)
        for source in others:
            common.intersection_update(source.columns)
        return tuple(column for column in first.columns if column in common)

    @property
    def traits(self) -> DataTraits:
        """Whether any source must be downloaded from the hub, and the columns of numbers."""
        numbers: set[str] = set()
        fetches = False
        for source in self.sources:
            numbers.update(source.traits.numbers)
            if source.traits.fetches:
                fetches = True
        return DataTraits(
            fetches=fetches, numbers=frozenset(numbers.intersection(self.columns))
        )

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        if not self.columns:
            each = "; ".join(
                f"`{source.name}` has {', '.join(source.columns)}"
                for source in self.sources
            )
            yield f"the sources have no column in common: {each}; mix sources of one kind"
        for column in sorted(self.traits.numbers):
            with_texts = [
                source.name
                for source in self.sources
                if column not in source.traits.numbers
            ]
            if with_texts:
                yield (
                    f"the column `{column}` holds texts in the source `{with_texts[0]}`, and numbers in "
                    "another; mix sources of one kind"
                )

        if any(isinstance(source, Mix) for source in self.sources):
            yield (
                "a source of the mix is a mix itself, whose shares would not be kept; "
                "put all sources into one, with `weights`"
            )
        for field, value in (
            ("temperature", self.temperature),
            ("weights", self.weights or None),
        ):
            if self.strategy == field and value is None:
                yield f'`strategy = "{field}"` needs `{field}`; add it'
            elif self.strategy != field and value is not None:
                yield f'`{field}` is for `strategy = "{field}"`, not for {self.strategy!r}; remove it'

        if self.weights and len(self.weights) != len(self.sources):
            yield (
                f"`weights` has {len(self.weights)} number(s) for {len(self.sources)} sources; "
                "give one for each source, in their order"
            )

    def open(self) -> Mixed:
        """Open every source. Raises `DataError` as they do, and if one has no rows."""
        parts = tuple(source.open() for source in self.sources)
        for number, (source, part) in enumerate(
            zip(self.sources, parts, strict=True), 1
        ):
            if not len(part):
                raise DataError(
                    f"source {number} of the mix, `{source.name}`, has no rows; take it out"
                )

        sizes = tuple(map(len, parts))
        mixture = Mixture(
            sizes,
            self._takes(sizes),
            in_turn=self.strategy == "round-robin",
            whole_batches=self.batches == "single",
        )
        return Mixed(self.columns, parts, mixture)

    def _takes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the number of rows of each source in an epoch."""
        if self.strategy == "proportional":
            return tuple(sizes)
        if self.strategy == "round-robin":
            size = min(sizes)
            if self.repeat:
                size = max(sizes)
            return (size,) * len(sizes)
        shares: Sequence[float] = self.weights
        if self.strategy == "temperature":
            shares = [size ** (1 / (self.temperature or 1.0)) for size in sizes]
        if self.repeat:
            rows = sum(sizes)
            total = sum(shares)
            counts = []
            for share in shares:
                count = round(rows * share / total)
                counts.append(max(1, count))
            return tuple(counts)

        scale = min(size / share for size, share in zip(sizes, shares, strict=True))
        # A whole number apart from rounding errors counts as whole.
        return tuple(max(1, int(scale * share * (1 + 1e-12))) for share in shares)


@attrs.frozen(eq=False)
class Mixed(Dataset):
    """A concatenation of data sets: the rows of the first, then of the second, ..."""

    columns: tuple[str, ...]
    """Columns of every part."""
    parts: tuple[Dataset, ...]
    mixture: Mixture
    _starts: tuple[int, ...] = attrs.field(init=False)

    @_starts.default
    def _starts_of_parts(self) -> tuple[int, ...]:
        return tuple(accumulate(self.mixture.sizes, initial=0))

    @property
    def varies(self) -> bool:
        """Whether the texts of any part change from epoch to epoch."""
        return any(part.varies for part in self.parts)

    @property
    def left_out(self) -> dict[str, int]:
        """Description of the rows that the parts left out -> their number."""
        counts: Counter[str] = Counter()
        for part in self.parts:
            counts.update(part.left_out)
        return dict(counts)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the parts' fingerprints, the columns and the mixture."""
        described = repr(
            ([part.fingerprint for part in self.parts], self.columns, self.mixture)
        )
        return hashlib.sha256(described.encode()).hexdigest()

    def __len__(self) -> int:
        return self._starts[-1]

    def rows(
        self, indices: Sequence[int], epoch: int = 0
    ) -> Mapping[str, Sequence[Any]]:
        """Return the values of these rows, by column, as their parts give them in this epoch."""
        places: defaultdict[int, list[int]] = defaultdict(list)
        for place, index in enumerate(indices):
            number = bisect_right(self._starts, index) - 1
            places[number].append(place)

        mixed: dict[str, list[Any]] = {}
        for column in self.columns:
            mixed[column] = [""] * len(indices)
        for number, places_of_part in sorted(places.items()):
            start = self._starts[number]
            rows = [indices[place] - start for place in places_of_part]
            values = self.parts[number].rows(rows, epoch)
            for column, mixed_values in mixed.items():
                if len(values[column]) != len(rows):
                    raise DataError(
                        f"source {number + 1} of the mix ran dry: asked for {len(rows)} rows of "
                        f"`{column}`, it gave {len(values[column])} in epoch {epoch + 1}; check that its "
                        "files are complete and have not changed"
                    )
                for place, value in zip(places_of_part, values[column], strict=True):
                    mixed_values[place] = value

        return mixed

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, part by part."""
        for part in self.parts:
            yield from part.texts(chosen_columns(self.columns, columns))
