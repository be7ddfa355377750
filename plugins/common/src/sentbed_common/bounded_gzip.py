"""Opening of text files, which may be gzip files; their decompressed size is limited."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sentbed import DataError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

BUFFER = 1 << 17
"""Number of bytes that are decompressed at a time."""

MOST_UNPACKED = 1 << 28
MOST_GROWTH = 100
"""Largest decompressed size of a file: `MOST_UNPACKED` bytes or `MOST_GROWTH` times its compressed size,
whichever is larger. Texts are compressed by a factor of 3 to 10, a single repeated character by a factor of
1,000."""


@contextmanager
def readable(path: str | Path) -> Iterator[None]:
    """Turn errors while reading a file into a `DataError` that names the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"the file is damaged or cut short ({error}); get it again", path
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataError(
            f"cannot read the file: {reason}; check the path", path
        ) from error


@contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """Open a text file as a binary stream; if its name ends in `.gz`, it is decompressed while it is read.

    Raises:
        DataError: if it cannot be read, is damaged, or unpacks to more than `unpacked_stream` allows.
    """
    path = Path(path)
    with readable(path), path.open("rb") as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return
        with unpacked_stream(stream, path) as unpacked:
            yield unpacked


def unpacked_stream(stream: BinaryIO, file: object) -> io.BufferedReader:
    """Return a stream of the decompressed content of a gzip file, which is decompressed while it is read.

    `stream` is the compressed file; the caller closes it. Messages name it as `file`. Reading raises
    `DataError` if the content exceeds the limit (`MOST_UNPACKED`, `MOST_GROWTH`), and `OSError`, `EOFError` or
    `zlib.error` if the file is damaged.
    """
    return io.BufferedReader(_BoundedGzip(stream, file), BUFFER)


class _BoundedGzip(io.RawIOBase):
    """Raw stream of a gzip file's decompressed bytes; raises `DataError` beyond the limit."""

    def __init__(self, stream: BinaryIO, file: object) -> None:
        self._unpacked = gzip.GzipFile(fileobj=stream, mode="rb")
        self._file = file
        self._largest = max(
            MOST_UNPACKED, MOST_GROWTH * os.fstat(stream.fileno()).st_size
        )

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        # At most one byte beyond the limit is decompressed: it shows that the content is too large.
        most = self._largest + 1 - self._unpacked.tell()
        content = self._unpacked.read(min(len(view), most))
        if self._unpacked.tell() > self._largest:
            raise DataError(
                f"the file unpacks to more than {self._largest:,} bytes, over {MOST_GROWTH} times its size; "
                "repeat texts less often, or unpack it first",
                self._file,
            )

        view[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._unpacked.seek(offset, whence)

    def tell(self) -> int:
        return self._unpacked.tell()

    def close(self) -> None:
        self._unpacked.close()
        super().close()
