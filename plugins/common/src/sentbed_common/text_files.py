"""Opening of text files, which may be gzip files."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from sentbed import DataError


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
        DataError: if it cannot be read or is damaged.
    """
    path = Path(path)
    with readable(path), path.open("rb") as stream:
        if path.suffix.lower() != ".gz":
            yield stream
            return

        with gzip.open(stream) as unpacked:
            yield cast(BinaryIO, unpacked)
