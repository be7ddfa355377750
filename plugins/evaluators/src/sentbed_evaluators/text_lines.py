"""Lines and CSV rows of a text file, read one at a time; errors name file and line."""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sentbed import DataError, locate
from sentbed.errors import suggest
from sentbed.helpers import open_file
from sentbed_common import bounded_lines

_MARK = "\ufeff"
_BYTES_OF_MARK = codecs.BOM_UTF8.decode("latin-1")
"""UTF-8's byte order mark, decoded as single bytes."""


Hashes: TypeAlias = dict[Path, str]
"""File -> SHA-256 of all bytes that were read from it."""


def text_file_problems(*paths: str) -> Iterator[str]:
    """Yield problems with the paths of text files, without reading them."""
    for path in paths:
        try:
            if locate(path).is_dir():
                yield f"`{path}` is a directory; name a text file, one sentence per line"
        except DataError as error:
            yield str(error)


def texts_digest(texts: Sequence[str]) -> str:
    """Return the SHA-256 of a list of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


class _Hashing(io.BufferedReader):
    """A file whose bytes are hashed as they are read: the hash is of exactly the content that was parsed."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.digest = hashlib.sha256()

    def read1(self, size: int = -1, /) -> bytes:
        content = super().read1(size)
        self.digest.update(content)
        return content


def lines(
    path: Path, encoding: str = "utf-8", hashes: Hashes | None = None
) -> Iterator[tuple[int, str]]:
    r"""Yield number and text of each line, cut at "\n" alone: other separators occur inside sentences.

    A byte order mark and the "\r" at the end of a line are left out; an empty file has no lines. After the
    last line, the hash of the file is in `hashes`.

    Raises:
        DataError: if the file cannot be read, has bytes that are invalid in the encoding, or NUL characters.
    """
    number = 0
    try:
        with (
            _Hashing(open_file(path).detach()) as content,
            io.TextIOWrapper(content, encoding, newline="\n") as stream,
        ):
            for number, line in enumerate(bounded_lines(stream, path), start=1):
                text = line
                if number == 1:
                    text = line.removeprefix(_MARK).removeprefix(_BYTES_OF_MARK)
                if (at := text.find("\0")) >= 0:
                    raise DataError(
                        f"character {at + 1} of the line is NUL, which is in no text; convert the file to "
                        "UTF-8, or get it again if it was not written to its end",
                        path,
                        number,
                    )
                if text:
                    yield number, text.removesuffix("\n").removesuffix("\r")
            if hashes is not None:
                hashes[path] = content.digest.hexdigest()
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error.strerror}); check path and rights", path
        ) from error
    except UnicodeDecodeError as error:
        # The bytes of the error begin inside the first unread line.
        raise DataError(
            f"found byte 0x{error.object[error.start]:02x}, which is not {encoding.upper()}; convert the "
            f"file to UTF-8, name its encoding or download it again",
            path,
            number + 1 + error.object.count(b"\n", 0, error.start),
        ) from error
    except UnicodeError as error:
        raise DataError(
            f"the file is not {encoding.upper()} ({error}); name its encoding", path
        ) from error


def read_lines(
    path: Path, encoding: str = "utf-8", hashes: Hashes | None = None
) -> list[str]:
    """Return the lines of a file that is not empty; see `lines`."""
    texts = [text for _, text in lines(path, encoding, hashes)]
    if not texts:
        raise DataError("the file is empty; check the download", path)
    return texts


def csv_rows(
    path: Path, numbered_lines: Iterable[tuple[int, str]], delimiter: str = ","
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the first line number and the fields of each row, with RFC 4180 quoting."""
    reader = csv.reader(
        (text + "\n" for _, text in numbered_lines), delimiter=delimiter, strict=True
    )
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DataError(
                f"the row is not valid CSV ({error}); quote fields that hold a comma, a quote or a line end, "
                f"or download the file again",
                path,
                line,
            ) from error
        yield line, row


def column_places(
    columns: Sequence[str], header: Sequence[str], path: Path, advice: str
) -> list[int]:
    """Return the place of each column in the header, the file's first line.

    Raises `DataError`, with the advice, unless each is there once.
    """
    places = []
    for column in columns:
        if column not in header:
            choices = suggest(column, list(filter(None, header)))
            raise DataError(
                f"column `{column}` is not in the header; {advice}.{choices}", path, 1
            )
        if header.count(column) > 1:
            raise DataError(
                f"column `{column}` is in the header more than once; rename one of them",
                path,
                1,
            )
        places.append(header.index(column))
    return places


def encoding_problems(encoding: str) -> Iterator[str]:
    """Yield a problem if no text encoding has this name."""
    try:
        # `lookup` also accepts codecs that are not for text, such as `hex`.
        codecs.lookup(encoding)
        "".encode(encoding)
    except LookupError:
        yield f"`encoding` is {encoding!r}, which Python does not know; use `utf-8`"
