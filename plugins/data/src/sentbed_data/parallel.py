"""The source `parallel`: sentences and their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath
from sentbed.protocols import Dataset, DataSource
from sentbed_common import (
    InMemoryDataset,
    local_file,
    text_lines,
)

from sentbed_data.known_collections import with_remedy
from sentbed_data.streamed_table import open_streamed
from sentbed_data.table_source_base import columns_of_rows


@attrs.frozen(kw_only=True)
class Parallel(DataSource):
    """A sentence and its translation, from two line-aligned files or from two fields of a TSV file.

    If a frozen encoder teaches a trained one, as in the recipes `translation-pairs`, anchors are in the
    language of the trained encoder, and positives in the language of the frozen encoder.
    """

    name: ClassVar[str] = "parallel"

    anchor: FilePath | None = None
    """Text file with one sentence per line; needs `positive`."""
    positive: FilePath | None = None
    """Text file whose line n is the translation of line n of `anchor`."""
    path: FilePath | None = None
    """A single file instead of `anchor` and `positive`, with both texts in each line. Tabs separate the fields
    of a line; quotes are part of a text. There is no header row, and every line has the same number of fields."""
    fields: tuple[int, int] = attrs.field(default=(0, 1))
    """Indices of anchor and positive among the fields in `path`, from 0. In Tatoeba's files (English, Chinese,
    attribution), `[0, 1]` is English and Chinese."""
    skip_empty: bool = False
    """Whether lines in which a text is blank are left out; if false, they are an error."""
    encoding: str = "utf-8"
    """Encoding of the files, as Python names it; in UTF-8, a byte order mark is skipped."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to return, from the first, at least 1; default: all."""
    stream: bool = False
    """Whether the texts stay on disk, for files too large for memory. They are written once to an Arrow file in
    the cache, from which rows are read when they are needed."""

    @fields.validator
    def _validate_fields(self, attribute: object, value: tuple[int, int]) -> None:
        if min(value) < 0 or value[0] == value[1]:
            raise ValueError("expected two different numbers from 0, as `[0, 1]`")

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        try:
            locations = self._locations()
        except DataError as error:
            yield str(error)
            return

        if self.path is None and self.fields != (0, 1):
            yield "`fields` is for the TSV file that `path` names; remove `fields`"

        for location in locations:
            try:
                next(text_lines(local_file(location), self.encoding), None)
            except DataError as error:
                yield with_remedy(error, location)

    def open(self) -> Dataset:
        """Read the files, into memory or a cached file. Raises `DataError` if a line is invalid."""
        files = [local_file(location) for location in self._locations()]
        if self.stream:
            reading = [self.fields, self.skip_empty, self.encoding, self.limit]
            return open_streamed(
                files,
                {"anchor": 0, "positive": 1},
                lambda counts: self._pairs(files, counts),
                reading,
            )

        left_out: Counter[str] = Counter()
        anchors, positives = columns_of_rows(self._pairs(files, left_out), 2)
        return InMemoryDataset({"anchor": anchors, "positive": positives}, left_out)

    def _locations(self) -> tuple[FilePath, ...]:
        """Return the one or two files to read. Raises `DataError` if the fields do not name them."""
        if self.path is not None and self.anchor is None and self.positive is None:
            return (self.path,)

        if self.path is None and self.anchor is not None and self.positive is not None:
            return (self.anchor, self.positive)

        raise DataError(
            "give two files, `anchor` and `positive`, or one file, `path`, and not both"
        )

    def _pairs(
        self, files: list[Path], left_out: Counter[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the pairs in the files, and count the lines that are left out."""
        count = 0
        for number, anchor, positive in self._sides(files):
            if count == self.limit:
                # Files are read to their ends in spite of `limit`: if one of two has fewer lines, earlier pairs
                # may be wrong too.
                continue

            if anchor.strip() and positive.strip():
                count += 1
                yield anchor, positive
            elif self.skip_empty:
                left_out["lines with an empty side"] += 1
            else:
                file = files[0]
                if anchor.strip():
                    file = files[-1]

                raise DataError(
                    "a side of the pair is empty; expected a text; "
                    "correct the line, or leave such lines out with `skip_empty = true`",
                    file,
                    number,
                )

        if not count:
            raise DataError(
                "there is no pair of texts; expected at least one; check the file",
                files[0],
            )

    def _sides(self, files: list[Path]) -> Iterator[tuple[int, str, str]]:
        """Yield the number and both texts of each line. Raises `DataError` if one of two files has more lines."""
        if self.path is not None:
            yield from self._fields_of_lines(files[0])
            return

        lines = zip_longest(*(text_lines(file, self.encoding) for file in files))
        for number, (anchor_line, positive_line) in enumerate(lines, 1):
            if anchor_line is None or positive_line is None:
                shorter, longer = files
                if positive_line is None:
                    longer, shorter = files

                raise DataError(
                    f"the file has {number - 1} lines, and `{longer}` has more; expected line n of one to be the "
                    "translation of line n of the other; align them",
                    shorter,
                    number - 1,
                )

            yield number, anchor_line[1], positive_line[1]

    def _fields_of_lines(self, file: Path) -> Iterator[tuple[int, str, str]]:
        """Yield the number and both texts of each line of a TSV file; both texts of a blank line are empty."""
        width = 0
        for number, line in text_lines(file, self.encoding):
            if not line:
                yield number, "", ""
                continue

            texts = line.split("\t")
            # A tab within a text would move the texts behind it to other fields.
            width = width or max(len(texts), max(self.fields) + 1)
            if len(texts) != width:
                raise DataError(
                    f"the line has {len(texts)} field(s); expected {width}; correct the line, or "
                    "name other `fields`",
                    file,
                    number,
                )

            anchor, positive = self.fields
            yield number, texts[anchor], texts[positive]
