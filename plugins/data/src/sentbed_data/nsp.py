"""The source `nsp`: consecutive sentences of documents, as for next sentence prediction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, Literal

import attrs
from attrs.validators import ge, optional
from sentbed import DataError, FilePath, locate
from sentbed.protocols import DataSource
from sentbed_common import InMemoryDataset

from sentbed_data import hub
from sentbed_data.file_paths import as_tuple
from sentbed_data.file_source_base import (
    must_be_fetched,
    option_problems,
    require_readable,
)
from sentbed_data.known_collections import with_remedy
from sentbed_data.parquet_arrow import require_package
from sentbed_data.readers import TABLES, read_rows, suffix_of
from sentbed_data.text_lines import numbered_lines, python_encoding, without_line_end
from sentbed_data.word_splitting import count_words

_COUNT = optional(ge(1))


@attrs.frozen(kw_only=True)
class Nsp(DataSource):
    """A sentence and the next sentence of its document: SentBench's NSP (Devlin et al., 2019).

    A document with n sentences gives n - 1 rows, in reading order. The end of a file ends a document.

    The rows of a table must be in reading order too, and `document` says which rows belong to one document.
    Without `document`, a table of sentences is one document; in a table of prose, each row is a document. The
    hub's BookCorpus does not say where its 11,038 books begin, so that about one in 6,700 of its 74 million
    pairs has sentences of two books.
    """

    name: ClassVar[str] = "nsp"
    cites = ("liu2023sentbench", "devlin2019bert")

    path: FilePath | tuple[FilePath, ...]
    """A text file, a directory (its `.txt` files, sorted by name), a table, or an array of these.

    A table is a file with the suffix `.csv`, `.tsv`, `.jsonl`, `.parquet` (needs `sentbed-data[parquet]`) or
    `.arrow` (needs `sentbed-data[arrow]`), or, with `sentbed-data[hub]`, a data set of the hub
    (`hub:OWNER/NAME`) or a table in its repository (`hub:OWNER/NAME/FILE`). Files with other suffixes are text
    files.
    """
    format: Literal["sentences", "text"] = "sentences"
    """`sentences`: one sentence per line, with a blank line after each document; in a table, one sentence per
    row.

    `text`: prose in English, German or Spanish. Each file, or each row of a table, is a document. A blank line
    ends a paragraph, and with it a sentence. syntok splits paragraphs into sentences (needs
    `sentbed-data[sentences]`); line breaks within a sentence become spaces.
    """
    column: str = "text"
    """Column of the sentences or the prose, in a table."""
    document: str | None = None
    """Column of the document's id, in a table: a text or a whole number. Consecutive rows with the same id are
    one document. With `format = "text"`, each row is a passage of the document, and the end of a passage ends a
    sentence."""
    header: bool = True
    """Whether the first row of a CSV or TSV file names its columns.

    Without a header, the rows must have exactly the fields `column` and, if it is set, `document`, in this
    order.
    """
    min_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Smallest number of words of a sentence, at least 1; pairs with a shorter sentence are left out. Words are
    separated by white space; in Chinese, Japanese and Korean script every character is a word."""
    max_words: int | None = attrs.field(default=None, validator=_COUNT)
    """Largest number of words of a sentence, at least 1; pairs with a longer sentence are left out."""
    encoding: str = "utf-8"
    """Encoding of the files, as Python names it; in UTF-8, a byte order mark is skipped."""
    config: str | None = None
    """Configuration (subset) of a `hub:` data set; default: the data set's own default."""
    split: str = "train"
    """Split of a `hub:` data set, in the notation of `datasets`: `train`, `train[:1%]`."""
    revision: str | None = None
    """Branch, tag or commit of a `hub:` location; default: the newest commit. Only a commit is reproducible."""
    limit: int | None = attrs.field(default=None, validator=_COUNT)
    """Number of rows to return, from the first, at least 1; default: all."""

    @property
    def columns(self) -> tuple[str, ...]:
        """`anchor` and `positive`."""
        return ("anchor", "positive")

    @property
    def fetches(self) -> bool:
        """Whether a file is on a server."""
        return any(
            must_be_fetched(location, self.revision) for location in as_tuple(self.path)
        )

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        try:
            python_encoding(self.encoding)
            self._require()
        except DataError as error:
            yield str(error)

        if not self.path:
            yield "`path` is empty; expected a file, a directory or `hub:ID`; name one"

        for location in as_tuple(self.path):
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
            as_tuple(self.path),
            header=self.header,
            encoding=self.encoding,
            config=self.config,
            split=self.split,
            revision=self.revision,
        )
        if self.document is not None and not any(map(_is_table, as_tuple(self.path))):
            yield (
                f"`document = {self.document!r}` is a column of a table, and `path` names text files only; "
                "remove `document`"
            )

        if self.min_words and self.max_words and self.min_words > self.max_words:
            yield f"`min_words = {self.min_words}` is above `max_words = {self.max_words}`; exchange them"

    def open(self) -> InMemoryDataset:
        """Read the files. Raises `DataError`, with file and line, if a row is invalid."""
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
                ", ".join(as_tuple(self.path)),
            )

        reasons = {}
        if left_out:
            reasons = {"pairs outside of min_words and max_words": left_out}

        texts = {"anchor": anchors, "positive": positives}
        return InMemoryDataset(texts, reasons)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        """Yield all pairs of consecutive sentences."""
        for location in as_tuple(self.path):
            if _is_table(location):
                documents = self._table_documents(location)
            else:
                documents = self._text_documents(location)

            for document in documents:
                yield from pairwise(document)

    def _text_documents(self, location: str) -> Iterator[Iterable[str]]:
        """Yield the sentences of each document in a text file or in the text files of a directory."""
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
        """Yield the sentences in the rows of a document."""
        if self.format == "sentences":
            yield from texts
            return

        for text in texts:
            for block in _blocks(map(without_line_end, text.split("\n"))):
                yield from _sentences(block)

    def _fits(self, sentence: str) -> bool:
        """Whether a sentence has neither too few nor too many words."""
        if self.min_words is None and self.max_words is None:
            return True

        words = count_words(sentence)
        if self.min_words is not None and words < self.min_words:
            return False

        return self.max_words is None or words <= self.max_words

    def _require(self) -> None:
        """Raise `DataError` if the library that splits prose into sentences is needed and not installed."""
        if self.format == "text":
            require_package("syntok", "sentences")


def _is_table(location: str) -> bool:
    """Whether a location is a table, not a text file or a directory."""
    return hub.is_data_set(location) or suffix_of(location) in TABLES


def _text_files(location: str, revision: str | None) -> list[Path]:
    """Return the file that `location` names, or the text files in the directory that it names."""
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
    rows: Iterable[Sequence[str]],
    column: str,
    location: str,
) -> Iterator[list[str]]:
    """Yield the texts of each document from rows `(text, document)`; a document's rows must be consecutive.

    Raises:
        DataError: if the rows of a document are not consecutive; the error names the document's id and the row.
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
    """Yield each block of consecutive lines that are not blank."""
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
    """Yield the sentences of one paragraph; white space within a sentence is reduced to single spaces."""
    from syntok import segmenter

    for paragraph in segmenter.analyze("\n".join(lines)):
        for tokens in paragraph:
            yield " ".join("".join(map(str, tokens)).split())
