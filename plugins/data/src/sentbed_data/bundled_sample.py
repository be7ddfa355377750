"""The source `sample`: the small corpus that is part of this distribution."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import FilePath
from sentbed.protocols import DataSource
from sentbed_common import InMemoryDataset

from sentbed_data.triplets import Triplets


@attrs.frozen(kw_only=True)
class Sample(DataSource):
    """Some hundred synthetic triplets about everyday situations: enough to see that training works.

    `sample/README.md` describes how they are made. Graded pairs of the same kind are in
    `pkg:sentbed_data/sample/sts-dev.tsv` and `sts-test.tsv`.
    """

    name: ClassVar[str] = "sample"

    kind: Literal["triplets", "pairs", "sentences"] = "triplets"
    """`triplets`: anchor, positive and negative. `pairs`: anchor and positive. `sentences`: each sentence of
    the triplets once, as anchor and as positive."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to return, from the first, at least 1; default: all."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`, and `negative` with `kind = "triplets"`."""
        if self.kind == "triplets":
            return ("anchor", "positive", "negative")

        return ("anchor", "positive")

    def check(self) -> Iterator[str]:
        """Yield a problem if the corpus is not installed."""
        yield from self._triplets().check()

    def open(self) -> InMemoryDataset:
        """Read the corpus, as rows of `kind`."""
        table = self._triplets().open()
        if self.kind == "sentences":
            texts = list(dict.fromkeys(table.texts()))[: self.limit]
            return InMemoryDataset({"anchor": texts, "positive": texts})

        rows = table.rows(range(len(table))[: self.limit])
        return InMemoryDataset({column: rows[column] for column in self.columns})

    def _triplets(self) -> Triplets:
        return Triplets(path=FilePath("pkg:sentbed_data/sample/triplets.csv"))
