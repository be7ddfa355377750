"""Which texts of evaluations occur in training texts, exactly or nearly (`SeenTexts`).

Only hashes of the texts of evaluations are kept in memory. Training texts are read once, as a stream.
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
"""Minimum number of words of a text for the rule that it is nearly seen if a training text differs by one word.

Shorter texts differ by one word from some unrelated text by chance. Of SICK's sentences with 6 words, 0.5 %
differ by one word from a caption of an unrelated collection; of those with 7 words, 0.07 %.
"""

RUN = 8
"""Number of words of a run: a sequence of words that a text may share with training texts. In Llama 2's
measure, a run has more than 10 tokens."""

NEAR = 0.8
"""Share of a text's words that must be in shared runs for the text to count as nearly seen, by default."""

_BLOCK = 1 << 22
"""Number of characters of training texts that are hashed at a time."""

_BITS = 22
"""Number of leading bits of a hash that are looked up before the binary search; they reject most hashes."""


class SeenTexts:
    """Texts for which training texts are searched.

    A text is seen exactly if a training text has the same words in the same order. It is seen nearly if

    - it has `FEWEST_WORDS` words or more, and a training text differs from it by one changed, added or removed
      word; or
    - at least a share `near` of its words is in runs of `RUN` words that training texts have, too, for example
      because it is a part of a longer training text.

    The second measure is that of Llama 2 (Touvron et al., 2023, A.6), but without skipped tokens.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        import numpy as np

        hashes = WordHashes(texts)
        self._lengths = hashes.lengths
        self._text_of_word = hashes.text_of
        self._is_long = hashes.lengths >= FEWEST_WORDS
        words_of_long_texts = np.flatnonzero(self._is_long[hashes.text_of])
        self._text_of_changed_word = hashes.text_of[words_of_long_texts]
        self._first_words_of_runs, runs = hashes.runs(RUN)

        self._whole = _Marks(hashes.whole)
        """For each text: marked if a training text has the same words."""
        self._whole_in_longer = _Marks(hashes.whole)
        """For each text: marked if a training text has the same words and one more."""
        self._with_gap = _Marks(hashes.masked()[words_of_long_texts])
        """For each word of the long texts: marked if a training text equals the word's text but for this word."""
        self._without_word = _Marks(hashes.removed()[words_of_long_texts])
        """For each word of the long texts: marked if a training text is the word's text without this word."""
        self._runs = _Marks(runs)
        """For each run of words: marked if a training text has the same run."""

        self.read = 0
        """Number of training texts that were read."""

    def look_in(self, training: Iterable[str]) -> None:
        """Read training texts, and mark the hashes that they share with the searched texts."""
        for block in _blocks(training):
            hashes = WordHashes(block)
            self.read += len(block)
            self._whole.mark(hashes.whole[hashes.lengths > 0])
            self._without_word.mark(hashes.whole)

            is_of_long_text = hashes.lengths[hashes.text_of] >= FEWEST_WORDS
            self._with_gap.mark(hashes.masked()[is_of_long_text])
            self._whole_in_longer.mark(hashes.removed()[is_of_long_text])

            _, runs = hashes.runs(RUN)
            self._runs.mark(runs)

    @property
    def is_short(self) -> NDArray[np.bool_]:
        """Whether each text has too few words to be seen nearly, `(texts,)`."""
        return ~self._is_long

    @property
    def exactly(self) -> NDArray[np.bool_]:
        """Whether each text is seen exactly, `(texts,)`."""
        return self._whole.marked & (self._lengths > 0)

    def nearly(self, near: float = NEAR) -> NDArray[np.bool_]:
        """Return whether each text is seen, exactly or nearly, `(texts,)`."""
        import numpy as np

        is_seen = self.exactly | (self._whole_in_longer.marked & self._is_long)
        is_seen_if_changed = self._with_gap.marked | self._without_word.marked
        is_seen[self._text_of_changed_word[is_seen_if_changed]] = True

        share = self._words_in_runs() / np.maximum(self._lengths, 1)
        is_seen |= (share >= near) & (self._lengths >= RUN)
        return is_seen

    def _words_in_runs(self) -> NDArray[np.int64]:
        """Return the number of each text's words that are in seen runs, `(texts,)`."""
        import numpy as np

        # Each run adds 1 at its first word and -1 after its last: the running sum is above 0 within runs.
        first_words = self._first_words_of_runs[self._runs.marked]
        size = len(self._text_of_word) + 1
        edges = np.bincount(first_words, minlength=size)
        edges -= np.bincount(first_words + RUN, minlength=size)
        is_in_run = np.cumsum(edges)[:-1] > 0
        texts = self._text_of_word[is_in_run]
        return np.bincount(texts, minlength=len(self._lengths))


class _Marks:
    """Hashes of the searched texts, each with a mark if training texts have it, too."""

    def __init__(self, hashes: Hashes) -> None:
        import numpy as np

        self._keys, self._place = np.unique(hashes, return_inverse=True)
        self._is_found = np.zeros(len(self._keys), bool)
        self._may_be_there = np.zeros(1 << _BITS, bool)
        self._may_be_there[self._keys >> np.uint64(64 - _BITS)] = True

    def mark(self, hashes: Hashes) -> None:
        """Mark the hashes that are among `hashes`, the hashes of training texts."""
        import numpy as np

        if not len(self._keys):
            return

        hashes = hashes[self._may_be_there[hashes >> np.uint64(64 - _BITS)]]
        place = np.searchsorted(self._keys, hashes)
        place[place == len(self._keys)] = 0
        self._is_found[place[self._keys[place] == hashes]] = True

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Whether each hash is marked, in the order of the searched texts."""
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
