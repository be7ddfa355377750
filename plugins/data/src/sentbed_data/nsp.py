"""Adjacent sentences of narrative text, for next sentence prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Literal

import attrs
from sentbed import DataError, FilePath, locate
from sentbed.protocols import DataSource, DataTraits

from sentbed_data.filtered_table import FilteredTable
from sentbed_data.library_formats import require
from sentbed_data.text_formats import codec
from sentbed_data.text_lines import numbered_lines, several
from sentbed_data.word_splitting import WORD

_COUNT = attrs.validators.optional(attrs.validators.ge(1))


@attrs.frozen(kw_only=True)
class Nsp(DataSource):
    """A sentence and the next one of its document: SentBench's NSP (Devlin et al., 2019).

    A document with n sentences gives n - 1 rows, in reading order. A file always ends a document.
    """

    name: ClassVar[str] = "nsp"
    traits = DataTraits(cites=("liu2023sentbench", "devlin2019bert"))

    path: FilePath | tuple[FilePath, ...]
    """A text file, a directory (its `.txt` files, in the order of their names), or an array of both."""
    format: Literal["sentences", "text"] = "sentences"
    """`sentences`: one sentence per line, a blank line ends a document. `text`: prose in English, German or
    Spanish, each file one document; a blank line ends a paragraph, and no sentence crosses it. syntok
    splits the sentences (needs `sentbed-data[sentences]`), and line breaks inside them become blanks."""
    min_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Smallest number of words of a sentence, at least 1; pairs with a shorter one are left out. Words are
    separated by blanks; in Chinese, Japanese and Korean script every character is a word."""
    max_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Largest number of words of a sentence, at least 1; pairs with a longer one are left out."""
    encoding: str = "utf-8"
    """Encoding of the files, by Python's name; in UTF-8 a byte order mark is skipped."""
    limit: int | None = attrs.field(default=None, validator=_COUNT)
    """Number of first rows to return, at least 1; default: all."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        try:
            codec(self.encoding)
            list(self._files())
            self._require()
        except DataError as error:
            yield str(error)
        if self.min_words and self.max_words and self.min_words > self.max_words:
            yield f"`min_words = {self.min_words}` is above `max_words = {self.max_words}`; exchange them"

    def open(self) -> FilteredTable:
        """Read the files. Raises `DataError` with file and line."""
        self._require()
        anchors: list[str] = []
        positives: list[str] = []
        left_out = 0
        for first, second in self._pairs():
            if not (self._fits(first) and self._fits(second)):
                left_out += 1
                continue
            anchors.append(first)
            positives.append(second)
            if len(anchors) == self.limit:
                break
        if not anchors:
            raise DataError(
                f"there are no two sentences in a row ({left_out} pairs left out for their length); "
                f"expected documents of two sentences or more; check `format`, `min_words` and `max_words`",
                ", ".join(several(self.path)),
            )
        return FilteredTable(
            {"anchor": anchors, "positive": positives},
            {"pairs outside of min_words and max_words": left_out} if left_out else {},
        )

    def _files(self) -> Iterator[Path]:
        if not self.path:
            raise DataError("`path` is empty; expected a file or a directory; name one")
        for location in several(self.path):
            place = locate(location)
            files = sorted(place.glob("*.txt")) if place.is_dir() else [place]
            if not files:
                raise DataError("the directory has no `.txt` file; name another, or the files", place)
            yield from files

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for file in self._files():
            lines = numbered_lines(file, self.encoding)
            blocks = _blocks(line for _, line in lines)
            if self.format == "text":
                yield from pairwise(sentence for block in blocks for sentence in _sentences(block))
            else:
                for document in blocks:
                    yield from pairwise(document)

    def _fits(self, sentence: str) -> bool:
        if self.min_words is None and self.max_words is None:
            return True
        words = sum(1 for _ in WORD.finditer(sentence))
        return (self.min_words or 0) <= words and (self.max_words is None or words <= self.max_words)

    def _require(self) -> None:
        if self.format == "text":
            require("syntok", "sentences")


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each block of lines between blank ones."""
    block: list[str] = []
    for line in lines:
        if line and not line.isspace():
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _sentences(lines: list[str]) -> Iterator[str]:
    """Yield the sentences of one paragraph, spelt as there, every run of blanks reduced to one."""
    from syntok import segmenter

    for paragraph in segmenter.analyze("\n".join(lines)):
        for tokens in paragraph:
            yield " ".join("".join(map(str, tokens)).split())
