"""The source `parallel`: sentences and their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
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
    """A sentence and its translation, from two line-aligned files; for a table of both, use `pairs`.

    If a frozen encoder teaches a trained one, as in the recipes `translation-pairs`, anchors are in the
    language of the trained encoder, and positives in the language of the frozen encoder.
    """

    name: ClassVar[str] = "parallel"

    anchor: FilePath
    """Text file with one sentence per line."""
    positive: FilePath
    """Text file whose line n is the translation of line n of `anchor`."""

    skip_empty: bool = False
    """Whether lines in which a text is blank are left out; if false, they are an error."""
    encoding: str = "utf-8"
    """Encoding of the files, as Python names it; in UTF-8, a byte order mark is skipped."""
    limit: int | None = attrs.field(default=None, validator=optional(ge(1)))
    """Number of rows to return, from the first, at least 1; default: all."""
    stream: bool = False
    """Whether the texts stay on disk, for files too large for memory. They are written once to an Arrow file in
    the cache, from which rows are read when they are needed."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading more than the first row."""
        for location in (self.anchor, self.positive):
            try:
                next(text_lines(local_file(location), self.encoding), None)
            except DataError as error:
                yield with_remedy(error, location)

    def open(self) -> Dataset:
        """Read the files, into memory or a cached file. Raises `DataError` if a line is invalid."""
        files = [local_file(self.anchor), local_file(self.positive)]
        if self.stream:
            return open_streamed(
                files,
                {"anchor": 0, "positive": 1},
                lambda counts: self._pairs(files, counts),
                [self.skip_empty, self.encoding, self.limit],
            )

        left_out: Counter[str] = Counter()
        anchors, positives = columns_of_rows(self._pairs(files, left_out), 2)
        return InMemoryDataset({"anchor": anchors, "positive": positives}, left_out)

    def _pairs(
        self, files: Sequence[Path], left_out: Counter[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the pairs in the files, and count the lines that are left out."""
        count = 0
        lines_of_files = [text_lines(file, self.encoding) for file in files]
        lines = zip_longest(*lines_of_files)
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

            if count == self.limit:
                # Files are read to their ends in spite of `limit`: if one of two has fewer lines, earlier pairs
                # may be wrong too.
                continue

            anchor, positive = anchor_line[1], positive_line[1]
            if anchor.strip() and positive.strip():
                count += 1
                yield anchor, positive
            elif self.skip_empty:
                left_out["lines with an empty side"] += 1
            else:
                file = files[0]
                if anchor.strip():
                    file = files[1]

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
