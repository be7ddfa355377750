"""Texts on disk that are read by their numbers; equal texts are recognised by their digests."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import attrs
from sentbed.errors import RunError
from sentbed.helpers import cannot_write
from sentbed_common import first_of_equal, text_digest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.define(eq=False)
class TextStore:
    """Texts in one file, in the order in which they were added; 24 bytes per text are held in memory."""

    path: Path
    stream: BinaryIO
    ends: array[int] = attrs.field(factory=lambda: array("Q", [0]))
    """Byte offsets in the file: a 0, then the end of each text."""
    digests: bytearray = attrs.field(factory=bytearray)
    """Digests of all texts, one after the other."""

    @classmethod
    def create(cls, path: Path) -> TextStore:
        """Create an empty store. A file at `path` is overwritten.

        Raises:
            RunError: if the file cannot be written.
        """
        try:
            return cls(path, path.open("w+b"))
        except OSError as error:
            raise RunError(cannot_write(path, error)) from error

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, texts: Iterable[str]) -> None:
        """Append texts. Raises `RunError` if the disk is full."""
        end = self.ends[-1]
        try:
            for text in texts:
                # Lone surrogates are stored: the encoder refuses them later, and names the text.
                content = text.encode(errors="surrogatepass")
                self.stream.write(content)
                end += len(content)
                self.ends.append(end)
                self.digests += text_digest(content)
            self.stream.flush()
        except OSError as error:
            raise RunError(cannot_write(self.path, error)) from error

    def read(self, numbers: Sequence[int]) -> list[str]:
        """Return the texts with these numbers."""
        texts = []
        for number in numbers:
            start = self.ends[number]
            end = self.ends[number + 1]
            # Unlike `read`, it leaves the position at the end, where `add` writes.
            content = os.pread(self.stream.fileno(), end - start, start)
            texts.append(content.decode(errors="surrogatepass"))
        return texts

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers of the distinct texts, and the position of every text among these.

        The first array has the number of the first occurrence of each distinct text, in ascending order. The
        second has an index in the first array for every text.
        """
        import numpy as np

        first = first_of_equal(self.digests)
        numbers, places = np.unique(first, return_inverse=True)
        return numbers, places.astype(np.int64)

    def close(self) -> None:
        """Close the file."""
        self.stream.close()
