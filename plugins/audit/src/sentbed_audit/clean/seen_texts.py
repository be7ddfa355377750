"""`SeenTexts`: which texts of evaluations occur in training texts, exactly or nearly.

Only hashes of the evaluations' texts are kept in memory; training texts are read once, as a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sentbed_audit.clean.word_hashes import WordHashes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sentbed_audit.clean.word_hashes import Hashes

FEWEST_WORDS = 7
"""Minimum number of words of a text that is nearly seen if a training text differs by one word. Shorter sentences
have such neighbours by chance: with 6 words, 0.5 % of SICK's sentences have one among captions of another
collection; with 7, 0.07 %."""

RUN = 8
"""Number of words of a run that counts as shared. Llama 2's measure has more than 10 tokens."""

NEAR = 0.8
"""Default minimum share of a text's words in shared runs with which it is nearly seen."""

_BLOCK = 1 << 22
"""Number of characters of training texts that are hashed at a time."""

_BITS = 22
"""Number of leading bits of a hash by which most absent hashes are rejected before the binary search."""


class SeenTexts:
    """Texts that are searched in training texts.

    A text is seen exactly if a training text has the same words in the same order. It is seen nearly if

    - it has `FEWEST_WORDS` words or more, and a training text differs from it by one changed, added or removed
      word; or
    - at least a share `near` of its words is in runs of `RUN` words that any training texts have too, as when
      it is a part of a longer training text.

    The second is the measure of Llama 2 (Touvron et al., 2023, A.6) without its skipped tokens.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        hashes = WordHashes(texts)
        self._lengths = hashes.lengths
        self._text_of = hashes.text_of
        self._is_long = hashes.lengths >= FEWEST_WORDS
        changeable = np.flatnonzero(self._is_long[hashes.text_of])
        self._changed_text = hashes.text_of[changeable]
        self._first, runs = hashes.runs(RUN)

        self._whole = _Marks(hashes.whole)
        self._with_added_word = _Marks(hashes.whole)
        self._with_gap = _Marks(hashes.masked()[changeable])
        self._less_a_word = _Marks(hashes.removed()[changeable])
        self._runs = _Marks(runs)
        self.read = 0
        """Number of training texts that were read."""

    def look_in(self, training: Iterable[str]) -> None:
        """Read training texts."""
        for block in _blocks(training):
            hashes = WordHashes(block)
            self.read += len(block)
            self._whole.mark(hashes.whole[hashes.lengths > 0])
            self._less_a_word.mark(hashes.whole)
            is_long = hashes.lengths[hashes.text_of] >= FEWEST_WORDS
            self._with_gap.mark(hashes.masked()[is_long])
            self._with_added_word.mark(hashes.removed()[is_long])
            self._runs.mark(hashes.runs(RUN)[1])

    @property
    def is_short(self) -> NDArray[np.bool_]:
        """Whether each text has too few words to be seen nearly, `(texts,)`."""
        return ~self._is_long

    @property
    def exactly(self) -> NDArray[np.bool_]:
        """Whether each text is seen exactly, `(texts,)`."""
        return self._whole.marked & (self._lengths > 0)

    def nearly(self, near: float = NEAR) -> NDArray[np.bool_]:
        """Whether each text is seen nearly, or exactly, `(texts,)`."""
        import numpy as np

        is_near = self.exactly | (self._with_added_word.marked & self._is_long)
        is_changed = self._with_gap.marked | self._less_a_word.marked
        is_near[self._changed_text[is_changed]] = True
        share = self._covered() / np.maximum(self._lengths, 1)
        result: NDArray[np.bool_] = is_near | ((share >= near) & (self._lengths >= RUN))
        return result

    def _covered(self) -> NDArray[np.int64]:
        """Return the number of words of each text that are in seen runs, `(texts,)`."""
        import numpy as np

        # +1 at the first word of each run and -1 after its last: the sum is above 0 within runs.
        first = self._first[self._runs.marked]
        size = len(self._text_of) + 1
        edges = np.bincount(first, minlength=size)
        edges -= np.bincount(first + RUN, minlength=size)
        is_covered = np.cumsum(edges)[:-1] > 0
        return np.bincount(self._text_of[is_covered], minlength=len(self._lengths))


class _Marks:
    """Hashes of the searched texts, and which of them training texts have."""

    def __init__(self, hashes: Hashes) -> None:
        import numpy as np

        self._keys, self._place = np.unique(hashes, return_inverse=True)
        self._is_found = np.zeros(len(self._keys), bool)
        self._may_be_there = np.zeros(1 << _BITS, bool)
        self._may_be_there[self._keys >> np.uint64(64 - _BITS)] = True

    def mark(self, hashes: Hashes) -> None:
        """Mark those hashes that are among `hashes`, which are of training texts."""
        import numpy as np

        if not len(self._keys):
            return

        hashes = hashes[self._may_be_there[hashes >> np.uint64(64 - _BITS)]]
        place = np.searchsorted(self._keys, hashes)
        place[place == len(self._keys)] = 0
        self._is_found[place[self._keys[place] == hashes]] = True

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Whether each hash was marked, in the order in which they were given."""
        return self._is_found[self._place]


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in lists of about `_BLOCK` characters."""
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size >= _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block
