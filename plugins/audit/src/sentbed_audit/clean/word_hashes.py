"""Hashes of texts, of texts less a word, and of runs of words, without regard to case and punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Hashes: TypeAlias = NDArray[np.uint64]

# Chinese and Japanese are written without spaces: each character is a word.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+")

_BASE = 0x9E3779B97F4A7C15
"""Base of the polynomial that hashes words in order; odd, so that it has an inverse."""
_INVERSE = pow(_BASE, -1, 1 << 64)


def words_of(text: str) -> list[str]:
    """Return the words of a text: letters and digits, in one form (NFKC) and case.

    Punctuation, accents apart from their letter, and white space do not count.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


class WordHashes:
    """Words of some texts as numbers, from which all hashes are made.

    The hash of words h0, h1, ... is h0 + h1 B + h2 B² + ... modulo 2⁶⁴. Hashes of words are those of this
    Python process, so that hashes of texts mean nothing to another one.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        import numpy as np

        words: list[str] = []
        lengths = []
        for text in texts:
            of_text = words_of(text)
            lengths.append(len(of_text))
            words += of_text

        self.lengths: NDArray[np.int64] = np.array(lengths, np.int64)
        """`(texts,)`: number of words."""
        ends = np.cumsum(self.lengths)
        starts = ends - self.lengths
        self.text_of: NDArray[np.int64] = np.repeat(
            np.arange(len(lengths)), self.lengths
        )
        """`(words,)`: number of the text that a word stands in."""
        self.place: NDArray[np.int64] = np.arange(len(words)) - starts[self.text_of]
        """`(words,)`: number of a word in its text, from 0."""

        # The largest base of a polynomial is that of the longest text.
        longest = int(self.lengths.max(initial=0))
        self._inverse_powers = _powers(_INVERSE, longest + 1)
        hashes = np.fromiter(map(hash, words), np.int64, len(words)).view(np.uint64)
        self._terms: Hashes = hashes * _powers(_BASE, longest + 1)[self.place]
        self._sums: Hashes = np.concatenate(
            [np.zeros(1, np.uint64), np.cumsum(self._terms)]
        )
        self._starts, self._ends = starts, ends
        self.whole: Hashes = self._sums[ends] - self._sums[starts]
        """`(texts,)`: hash of each text."""

    def masked(self) -> Hashes:
        """Return the hash of the text of each word with a gap in the place of the word, `(words,)`."""
        masked: Hashes = self.whole[self.text_of] - self._terms
        return masked

    def removed(self) -> Hashes:
        """Return the hash of the text of each word without the word, `(words,)`."""
        import numpy as np

        word = np.arange(len(self.place))
        before = self._sums[word] - self._sums[self._starts[self.text_of]]
        after = self._sums[self._ends[self.text_of]] - self._sums[word + 1]
        removed: Hashes = before + after * np.uint64(_INVERSE)
        return removed

    def runs(self, length: int) -> tuple[NDArray[np.int64], Hashes]:
        """Return the first word of each run of `length` words within a text, and the hash of the run."""
        import numpy as np

        first = np.flatnonzero(self.place + length <= self.lengths[self.text_of])
        sums = self._sums[first + length] - self._sums[first]
        return first, sums * self._inverse_powers[self.place[first]]


def _powers(base: int, count: int) -> Hashes:
    """Return the powers of a number from 0 on, modulo 2⁶⁴."""
    import numpy as np

    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    powers: Hashes = np.cumprod(factors)
    return powers
