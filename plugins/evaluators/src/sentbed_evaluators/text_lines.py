"""Strict reader of the lines of text files, one at a time; errors name file and line."""

from __future__ import annotations

import codecs
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from sentbed import DataError, locate
from sentbed.errors import listed, suggest
from sentbed_common import in_utf_16

_MARK = "\ufeff"
_BYTES_OF_MARK = codecs.BOM_UTF8.decode("latin-1")
"""UTF-8's byte order mark as it is read in a single-byte encoding."""


Hashes: TypeAlias = dict[Path, str]
"""SHA-256 of each file, over all bytes that were read from it."""


def text_file_problems(*paths: str) -> Iterator[str]:
    """Yield problems with the paths of text files, without reading them."""
    for path in paths:
        try:
            if locate(path).is_dir():
                yield f"`{path}` is a directory; name a text file, one sentence per line"
        except DataError as error:
            yield str(error)


def texts_digest(texts: Sequence[str]) -> str:
    """Return the SHA-256 over a list of texts."""
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


def single_spaced(text: str) -> str:
    """Return a text with one space between its words, as SentEval gives its texts to an encoder."""
    return " ".join(text.split())


class _HashingReader(io.BufferedReader):
    """A file whose bytes are hashed while they are read: the hash is that of the content that was parsed."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.digest = hashlib.sha256()

    # `readline` of a text stream reads its bytes by `read1` alone.
    def read1(self, size: int = -1, /) -> bytes:
        content = super().read1(size)
        self.digest.update(content)
        return content


def lines(
    path: Path,
    encoding: str = "utf-8",
    hashes: Hashes | None = None,
) -> Iterator[tuple[int, str]]:
    r"""Yield the number and the text of each line.

    Only "\n" ends a line, since other line separators occur inside sentences. A byte order mark, and "\r" at
    the end of a line, are removed. An empty file has no lines. If `hashes` is given, the SHA-256 of the file is
    put into it after the last line.

    Raises:
        DataError: if the file cannot be read, has bytes that are invalid in the encoding, or has NUL characters.
    """
    number = 0
    try:
        with (
            _HashingReader(path.open("rb", buffering=0)) as content,
            io.TextIOWrapper(content, encoding, newline="\n") as stream,
        ):
            if encoding == "utf-8" and in_utf_16(content.peek(2)):
                message = "this file is in UTF-16, expected UTF-8; convert it, or name its encoding"
                raise DataError(message, path, 1)
            for number, line in enumerate(stream, start=1):
                text = line
                if number == 1:
                    text = line.removeprefix(_MARK).removeprefix(_BYTES_OF_MARK)
                place = text.find("\0")
                if place >= 0:
                    raise DataError(
                        f"character {place + 1} of the line is NUL, which is in no text; convert the file to "
                        "UTF-8, or get it again if it is incomplete",
                        path,
                        number,
                    )
                if text:
                    yield number, text.removesuffix("\n").removesuffix("\r")
            if hashes is not None:
                hashes[path] = content.digest.hexdigest()
    except OSError as error:
        raise DataError(
            f"the file cannot be read ({error.strerror}); check its path and permissions",
            path,
        ) from error
    except UnicodeDecodeError as error:
        # The error counts from the start of the bytes that are not yet decoded: the first line not yet yielded.
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
    path: Path,
    encoding: str = "utf-8",
    hashes: Hashes | None = None,
) -> list[str]:
    """Return all lines of a file, as `lines` yields them; raises `DataError` if the file is empty."""
    texts = [text for _, text in lines(path, encoding, hashes)]
    if not texts:
        raise DataError("the file is empty; check the download", path)
    return texts


def with_line_ends(numbered_lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yield the lines with their line ends, for a parser of CSV, whose fields may have several lines."""
    for _, text in numbered_lines:
        yield text + "\n"


def column_places(
    columns: Sequence[str],
    header: Sequence[str],
    path: Path,
    advice: str,
) -> list[int]:
    """Return the places of columns in the header, which is the first line of a file.

    Raises `DataError` unless each column is in the header once; `advice` is the end of the message.
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


def class_number(
    label: str,
    classes: Sequence[str],
    path: Path,
    line: int,
) -> int:
    """Return the class number of a label; raises `DataError` for an unknown label."""
    if label not in classes:
        raise DataError(
            f"the label is {label!r}, but one of {listed(classes)} was expected; repair the line",
            path,
            line,
        )
    return classes.index(label)


def encoding_problems(encoding: str) -> Iterator[str]:
    """Yield a problem if no text encoding has this name."""
    try:
        # `lookup` also accepts codecs that are not for text, such as `hex`.
        codecs.lookup(encoding)
        "".encode(encoding)
    except LookupError:
        yield f"`encoding` is {encoding!r}, which Python does not know; use `utf-8`"
