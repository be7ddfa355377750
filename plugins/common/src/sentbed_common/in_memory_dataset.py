"""A data set whose texts and numbers are in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import attrs
from sentbed.protocols import Dataset


@attrs.frozen(eq=False)
class InMemoryDataset(Dataset):
    """Columns of equal length; a `Dataset` for sources that fit in memory.

    Raises:
        ValueError: if the columns differ in length.
        TypeError: if a value is neither a text nor a number.
    """

    data: Mapping[str, Sequence[Any]] = attrs.field()
    """Values of each column by its name: texts (`anchor`, `positive`, `negative`) or numbers."""
    left_out: Mapping[str, int] = attrs.field(factory=dict)
    """Number of rows that the source left out, by reason. A reason with no row is not listed. The manifest of a
    run records these numbers."""

    @data.validator
    def _require_equal_lengths(
        self,
        attribute: attrs.Attribute[Any],
        data: Mapping[str, Sequence[Any]],
    ) -> None:
        lengths = {}
        for name, values in data.items():
            if isinstance(values, str):
                raise TypeError(
                    f"the column `{name}` is {values!r:.80}, expected a list of values"
                )
            for kind in set(map(type, values)):
                if not issubclass(kind, str | Real):
                    raise TypeError(
                        f"the column `{name}` has values of the type `{kind.__name__}`, expected texts or numbers"
                    )
            lengths[name] = len(values)
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(
                f"{length} of `{name}`" for name, length in lengths.items()
            )
            raise ValueError(f"found {sizes}, expected as many values of each column")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.data)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the columns' names and values, in order."""
        digest = hashlib.sha256()
        for name, texts in self.data.items():
            digest.update(name.encode() + b"\0\0")
            for text in texts:
                digest.update(str(text).encode() + b"\0")

        return digest.hexdigest()

    def __len__(self) -> int:
        return len(next(iter(self.data.values()), ()))

    def rows(self, indices: Sequence[int], epoch: int = 0) -> dict[str, list[Any]]:
        """Return the values of these rows, by column. They are the same in every epoch."""
        columns = {}
        for name, texts in self.data.items():
            columns[name] = [texts[i] for i in indices]
        return columns

    def texts(self, columns: Collection[str] | None = None) -> Iterator[str]:
        """Yield every text, but no numbers, column by column. A list that two columns share is yielded once."""
        seen = set()
        for name, texts in self.data.items():
            is_left_out = columns is not None and name not in columns
            if is_left_out or id(texts) in seen:
                continue

            seen.add(id(texts))
            if isinstance(next(iter(texts), ""), str):
                yield from texts
