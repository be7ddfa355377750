"""The source `parallel`: sentences and their translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, TypeAlias

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath
from sentbed.errors import listed
from sentbed.protocols import Dataset, DataSource
from sentbed_common import InMemoryDataset

from sentbed_data.file_paths import local_file
from sentbed_data.known_collections import with_remedy
from sentbed_data.parquet_arrow import require_package
from sentbed_data.readers import columns_of_rows, problem_of_text
from sentbed_data.streamed_table import open_streamed
from sentbed_data.text_lines import numbered_lines, python_encoding

_Side: TypeAlias = tuple[Path, str]
"""One text of a pair, with the file that it is from."""


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
    """Whether the texts stay on disk, for files too large for memory (needs `sentbed-data[arrow]`). They are
    written once to an Arrow file in the cache, from which rows are read when they are needed."""

    @fields.validator
    def _validate_fields(self, attribute: object, value: tuple[int, int]) -> None:
        if min(value) < 0 or value[0] == value[1]:
            raise ValueError("expected two different numbers from 0, as `[0, 1]`")

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        try:
            python_encoding(self.encoding)
            if self.stream:
                require_package("pyarrow", "arrow")

            paths = self._paths()
        except DataError as error:
            yield str(error)
            return

        for path in paths:
            try:
                local_file(path)
            except DataError as error:
                yield with_remedy(error, path)

        if self.path is None and self.fields != (0, 1):
            yield "`fields` is for the TSV file that `path` names; remove `fields`"

    def open(self) -> Dataset:
        """Read the files, into memory or a cached file. Raises `DataError` if a line is invalid."""
        files = list(map(local_file, self._paths()))
        if self.stream:
            return self._open_streamed(files)

        left_out: Counter[str] = Counter()
        anchors, positives = columns_of_rows(self._pairs(files, left_out), 2)
        texts = {"anchor": anchors, "positive": positives}
        return InMemoryDataset(texts, left_out)

    def _open_streamed(self, files: Sequence[Path]) -> Dataset:
        """Return the pairs in the files, from a cached file on disk."""
        fields = None
        if self.path is not None:
            fields = list(self.fields)

        reading = {
            "fields": fields,
            "skip_empty": self.skip_empty,
            "encoding": python_encoding(self.encoding),
            "limit": self.limit,
        }
        columns = {"anchor": 0, "positive": 1}
        return open_streamed(
            files,
            self.columns,
            columns,
            lambda counts: self._pairs(files, counts),
            reading,
        )

    def _pairs(
        self, files: Sequence[Path], left_out: Counter[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the pairs in the files, and count the lines that are left out."""
        if self.path is None:
            rows = self._lines_of(*files)
        else:
            rows = self._fields_of(*files)

        count = 0
        for number, first, second in rows:
            if count == self.limit:
                # Files are read to their ends in spite of `limit`: if one of two has fewer lines, earlier pairs
                # may be wrong too.
                continue

            empty_side = _empty_side(first, second)
            if empty_side is not None and not self.skip_empty:
                raise DataError(
                    "a side of the pair is empty; expected a text; "
                    "correct the line, or leave such lines out with `skip_empty = true`",
                    empty_side,
                    number,
                )

            if empty_side is not None:
                left_out["lines with an empty side"] += 1
                continue

            for file, text in (first, second):
                if message := problem_of_text(text):
                    raise DataError(message, file, number)

            count += 1
            yield first[1], second[1]
            if count == self.limit and self.path is not None:
                break

        if not count:
            raise DataError(
                "there is no pair of texts; expected at least one; check the file",
                files[0],
            )

    def _paths(self) -> tuple[FilePath, ...]:
        """Return the one or two files to read. Raises `DataError` if the fields do not name them."""
        if self.path is not None and self.anchor is None and self.positive is None:
            return (self.path,)

        if self.path is None and self.anchor is not None and self.positive is not None:
            return (self.anchor, self.positive)

        options = []
        for field in ("anchor", "positive", "path"):
            if getattr(self, field) is not None:
                options.append(field)

        raise DataError(
            f"found {listed(options) or 'no file'}; give two files, `anchor` and `positive`, or one, `path`"
        )

    def _lines_of(self, *files: Path) -> Iterator[tuple[int, _Side, _Side]]:
        """Yield the lines of two files in parallel. Raises `DataError` if one file has more lines."""
        first_file, second_file = files
        first_count = second_count = 0
        lines = zip_longest(
            numbered_lines(first_file, self.encoding),
            numbered_lines(second_file, self.encoding),
        )
        for first, second in lines:
            if first is not None:
                first_count += 1

            if second is not None:
                second_count += 1

            if first is not None and second is not None:
                yield first[0], (first_file, first[1]), (second_file, second[1])

        if first_count == second_count:
            return

        shorter = second_file
        if first_count < second_count:
            shorter = first_file

        raise DataError(
            f"`{first_file}` has {first_count} lines and `{second_file}` {second_count}; "
            f"expected line n of one to be the translation of line n of the other; align them",
            shorter,
            min(first_count, second_count),
        )

    def _fields_of(self, file: Path) -> Iterator[tuple[int, _Side, _Side]]:
        """Yield the two fields of each line of one file. Raises `DataError` if lines differ in length."""
        width = 0
        for number, line in numbered_lines(file, self.encoding):
            if not line:
                # A blank line has no fields, but it is a line in which both texts are blank.
                yield number, (file, ""), (file, "")
                continue

            values = line.split("\t")
            width = width or max(len(values), max(self.fields) + 1)
            if len(values) != width:
                raise DataError(
                    f"the line has {len(values)} field(s) between tabs; expected {width}; "
                    f"correct the line, or name other `fields`",
                    file,
                    number,
                )

            first, second = self.fields
            yield number, (file, values[first]), (file, values[second])


def _empty_side(first: _Side, second: _Side) -> Path | None:
    """Return the file of the first blank text of a pair; None if neither text is blank."""
    for file, text in (first, second):
        if not text or text.isspace():
            return file

    return None
