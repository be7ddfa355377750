"""Hashes of texts, of texts without one word, and of runs of words. Case and punctuation do not count."""

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
"""Base of the polynomial hash of a sequence of words: 2⁶⁴ divided by the golden ratio, as in Fibonacci
hashing. It is odd, and so has an inverse modulo 2⁶⁴."""
_INVERSE = pow(_BASE, -1, 1 << 64)


def words_of(text: str) -> list[str]:
    """Return the words of a text: sequences of letters and digits, in the normal form NFKC and case-folded.

    Punctuation and white space are left out, and so are accents that have no composed letter.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _WORD.findall(text.casefold())


class WordHashes:
    """Hashes of all words of texts, from which the hashes of texts and of runs of words are computed.

    If words have the hashes h0, h1, ..., the hash of their sequence is h0 + h1 B + h2 B² + ... modulo 2⁶⁴, with
    base B. The hash of a word is Python's, which differs between processes, so that no hash may be stored.
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
        """`(words,)`: index of the text of each word."""
        self.place: NDArray[np.int64] = np.arange(len(words)) - starts[self.text_of]
        """`(words,)`: position of each word in its text, from 0."""

        # The longest text needs the highest power.
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
        """Return, for each word, the hash of its text with a gap in place of the word, `(words,)`."""
        masked: Hashes = self.whole[self.text_of] - self._terms
        return masked

    def removed(self) -> Hashes:
        """Return, for each word, the hash of its text without the word, `(words,)`."""
        import numpy as np

        word = np.arange(len(self.place))
        before = self._sums[word] - self._sums[self._starts[self.text_of]]
        after = self._sums[self._ends[self.text_of]] - self._sums[word + 1]
        # Without the word, the words after it have a power of B that is lower by one.
        removed: Hashes = before + after * np.uint64(_INVERSE)
        return removed

    def runs(self, length: int) -> tuple[NDArray[np.int64], Hashes]:
        """Return, for each run of `length` words of one text, the index of its first word and its hash."""
        import numpy as np

        first = np.flatnonzero(self.place + length <= self.lengths[self.text_of])
        sums = self._sums[first + length] - self._sums[first]
        # Divided by the power of B at its place, a run has the same hash at every place.
        return first, sums * self._inverse_powers[self.place[first]]


def _powers(base: int, count: int) -> Hashes:
    """Return `base` to the powers 0 to `count - 1`, modulo 2⁶⁴."""
    import numpy as np

    factors = np.full(count, base, np.uint64)
    factors[0] = 1
    powers: Hashes = np.cumprod(factors)
    return powers
