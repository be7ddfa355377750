"""Which texts of evaluations occur in training texts (`SeenTexts`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeAlias

RUN = 8
"""Number of words of a run: a sequence of words that a text may share with training texts."""

NEAR = 0.8
"""Share of a text's words that must be in shared runs for the text to count as seen."""

# Chinese and Japanese are written without spaces: each character is a word.
_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_IDEOGRAPHS}]|[^\W{_IDEOGRAPHS}]+")

Words: TypeAlias = tuple[str, ...]


def words_of(text: str) -> Words:
    """Return the words of a text: sequences of letters and digits, in the normal form NFKC and case-folded.

    Punctuation and white space are left out, and so are accents that have no composed letter.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return tuple(_WORD.findall(text.casefold()))


class SeenTexts:
    """Texts of evaluations, which are searched in training texts; these are read once, as a stream.

    A text is seen if a training text has the same words in the same order, or if at least a share `NEAR` of its
    words is in runs of `RUN` words that training texts have, too. The latter is the measure of Llama 2 (Touvron
    et al., 2023, A.6), with words for tokens and without skipped tokens.
    """

    def __init__(self, texts: Iterable[str], training: Iterable[str]) -> None:
        searched: set[Words] = set()
        searched_runs: set[Words] = set()
        for text in texts:
            words = words_of(text)
            searched.add(words)
            searched_runs.update(_runs(words))
        # A text without a word is not seen.
        searched.discard(())

        self.read = 0
        """Number of training texts."""
        self._seen: set[Words] = set()
        self._seen_runs: set[Words] = set()
        for text in training:
            self.read += 1
            words = words_of(text)
            if words in searched:
                self._seen.add(words)
            self._seen_runs.update(searched_runs.intersection(_runs(words)))

    def is_seen(self, text: str) -> bool:
        """Whether this text is seen."""
        words = words_of(text)
        if words in self._seen:
            return True
        places: set[int] = set()
        for start, run in enumerate(_runs(words)):
            if run in self._seen_runs:
                places.update(range(start, start + RUN))
        return bool(places) and len(places) >= NEAR * len(words)


def _runs(words: Words) -> Iterator[Words]:
    """Yield the runs of words of a text, in their order."""
    for start in range(len(words) - RUN + 1):
        yield words[start : start + RUN]
