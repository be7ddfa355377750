"""Adjacent sentences of narrative text, for next sentence prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath, locate
from sentbed.protocols import DataSource, DataTraits
from sentbed_common import InMemoryDataset

from sentbed_data import hub
from sentbed_data.csv_tsv_jsonl import chomp, codec
from sentbed_data.file_source_base import (
    must_be_fetched,
    option_problems,
    require_readable,
)
from sentbed_data.known_collections import with_remedy
from sentbed_data.parquet_arrow import require
from sentbed_data.readers import TABLES, read_rows, suffix_of
from sentbed_data.text_files import numbered_lines, several
from sentbed_data.word_splitting import count_words

_COUNT = optional(ge(1))


@attrs.frozen(kw_only=True)
class Nsp(DataSource):
    """A sentence and the next one of its document: SentBench's NSP (Devlin et al., 2019).

    A document with n sentences gives n - 1 rows, in reading order. A file always ends a document.

    In a table, rows are in reading order too, and `document` says which rows are one document. Without it,
    a table of sentences is one document, and in a table of prose each row is one. The hub's BookCorpus does
    not name its 11,038 books: of its 74 million pairs, one in about 6,700 has sentences of two of them.
    """

    name: ClassVar[str] = "nsp"

    path: FilePath | tuple[FilePath, ...]
    """A text file, a directory (its `.txt` files, in the order of their names), a table, or several of these.

    A table is a file that ends in `.csv`, `.tsv`, `.jsonl`, `.parquet` (needs `sentbed-data[parquet]`) or
    `.arrow` (needs `sentbed-data[arrow]`), or `hub:OWNER/NAME` (needs `sentbed-data[hub]`), or such a file of
    it, `hub:OWNER/NAME/FILE`. A file with any other suffix is text.
    """
    format: Literal["sentences", "text"] = "sentences"
    """`sentences`: one sentence per line, a blank line ends a document; in a table, one sentence per row.
    `text`: prose in English, German or Spanish, each file or row of a table one document; a blank line ends a
    paragraph, and no sentence crosses it. syntok splits the sentences (needs `sentbed-data[sentences]`), and
    line breaks inside them become blanks."""
    column: str = "text"
    """Column of a table with the sentences or the prose; ignored for text files."""
    document: str | None = None
    """Column of a table with the document's id, a text or a whole number. Rows with the same id follow each
    other and are one document; with `format = "text"` they are its passages, and no sentence crosses them."""
    header: bool = True
    """Whether the first row of a CSV or TSV file names its columns.

    Without a header, the fields must be exactly `column` and, if given, `document`, in this order.
    """
    min_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Smallest number of words of a sentence, at least 1; pairs with a shorter one are left out. Words are
    separated by blanks; in Chinese, Japanese and Korean script every character is a word."""
    max_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Largest number of words of a sentence, at least 1; pairs with a longer one are left out."""
    encoding: str = "utf-8"
    """Encoding of the files, by Python's name; in UTF-8 a byte order mark is skipped."""
    config: str | None = None
    """Configuration (subset) of a `hub:` data set; default: the data set's own default."""
    split: str = "train"
    """Split of a `hub:` data set, in the notation of `datasets`: `train`, `train[:1%]`."""
    revision: str | None = None
    """Branch, tag or commit of a `hub:` location; default: the newest. Only a commit is reproducible."""
    limit: int | None = attrs.field(default=None, validator=_COUNT)
    """Number of first rows to return, at least 1; default: all."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def traits(self) -> DataTraits:
        """The papers, and whether the data must be downloaded from the hub."""
        fetches = any(
            must_be_fetched(location, self.revision) for location in several(self.path)
        )
        return DataTraits(cites=("liu2023sentbench", "devlin2019bert"), fetches=fetches)

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        try:
            codec(self.encoding)
            self._require()
        except DataError as error:
            yield str(error)

        if not self.path:
            yield "`path` is empty; expected a file, a directory or `hub:ID`; name one"
        for location in several(self.path):
            try:
                if _is_table(location):
                    require_readable(location, TABLES)
                elif hub.is_file(location):
                    hub.require_library(location)
                else:
                    _text_files(location, None)
            except DataError as error:
                yield with_remedy(error, location)

        yield from option_problems(
            several(self.path),
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
        )
        if self.document is not None and not any(map(_is_table, several(self.path))):
            yield (
                f"`document = {self.document!r}` is a column of a table, and `path` names text files only; "
                "remove `document`"
            )
        if self.min_words and self.max_words and self.min_words > self.max_words:
            yield f"`min_words = {self.min_words}` is above `max_words = {self.max_words}`; exchange them"

    def open(self) -> InMemoryDataset:
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
        reasons = {}
        if left_out:
            reasons = {"pairs outside of min_words and max_words": left_out}
        texts = {"anchor": anchors, "positive": positives}
        return InMemoryDataset(texts, reasons)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        for location in several(self.path):
            if _is_table(location):
                documents = self._table_documents(location)
            else:
                documents = self._text_documents(location)
            for document in documents:
                yield from pairwise(document)

    def _text_documents(self, location: str) -> Iterator[Iterable[str]]:
        """Yield the sentences of each document in a file or directory."""
        for file in _text_files(location, self.revision):
            blocks = _blocks(line for _, line in numbered_lines(file, self.encoding))
            if self.format == "text":
                yield chain.from_iterable(map(_sentences, blocks))
            else:
                yield from blocks

    def _table_documents(self, location: str) -> Iterator[Iterable[str]]:
        """Yield the sentences of each document in a table."""
        columns = [self.column]
        labels = []
        if self.document is not None:
            columns.append(self.document)
            labels.append(self.document)
        rows = read_rows(
            location,
            columns,
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
            labels=labels,
        )
        if self.document is not None:
            for texts in _by_document(rows, self.document, location):
                yield self._sentences_of(texts)
        elif self.format == "text":
            for row in rows:
                yield self._sentences_of([row[0]])
        else:
            yield map(itemgetter(0), rows)

    def _sentences_of(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the sentences of a document's rows."""
        if self.format == "sentences":
            yield from texts
            return
        for text in texts:
            for block in _blocks(map(chomp, text.split("\n"))):
                yield from _sentences(block)

    def _fits(self, sentence: str) -> bool:
        if self.min_words is None and self.max_words is None:
            return True
        words = count_words(sentence)
        return (self.min_words or 0) <= words and (
            self.max_words is None or words <= self.max_words
        )

    def _require(self) -> None:
        if self.format == "text":
            require("syntok", "sentences")


def _is_table(location: str) -> bool:
    """Whether a location has rows with named columns."""
    return hub.is_data_set(location) or suffix_of(location) in TABLES


def _text_files(location: str, revision: str | None) -> list[Path]:
    """Return the file, or the text files of the directory, that `location` names."""
    if hub.is_file(location):
        return [hub.hub_file(location, revision)]
    place = locate(location)
    if not place.is_dir():
        return [place]
    files = sorted(place.glob("*.txt"))
    if not files:
        raise DataError(
            "the directory has no `.txt` file; name another, or the files", place
        )
    return files


def _by_document(
    rows: Iterable[Sequence[str]], column: str, location: str
) -> Iterator[list[str]]:
    """Yield the texts of each run of `(text, document)` with one document.

    Raises:
        DataError: if a document comes twice; with its id and the number of its row.
    """
    seen: set[str] = set()
    first = 1
    for document, run in groupby(rows, key=itemgetter(1)):
        if document in seen:
            raise DataError(
                f"row {first} of the data, column `{column}`: the document {document!r:.80} begins again "
                "after another; expected its rows to follow each other; put them together in reading order",
                location,
            )
        seen.add(document)
        texts = list(map(itemgetter(0), run))
        first += len(texts)
        yield texts


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
