"""The source `crop`: sentences, each with a part of it as its positive."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from attrs.validators import and_, gt, lt

from sentbed_data.augmentation_base import Augmentation, Augmented
from sentbed_data.word_splitting import words_with_space


@attrs.frozen(kw_only=True)
class Crop(Augmentation):
    """A sentence, and a part of it (consecutive words) as the positive.

    The part has the share `keep` of the words, rounded, but at least one word. Its start is drawn anew in every
    epoch. Words are separated by white space; in Chinese, Japanese and Korean script every character is a word.
    SimCSE compares this source with dropout alone (Gao et al., 2021, table 1).
    """

    name: ClassVar[str] = "crop"
    cites = ("gao2021simcse",)

    keep: float = attrs.field(default=0.9, validator=and_(gt(0.0), lt(1.0)))
    """Share of the words to keep, in (0, 1); 0.9 is SimCSE's `crop 10%`."""

    def open(self) -> Augmented:
        """Read the file. Raises `DataError`, with file and line, if a row is invalid."""
        return self._augmented(self._crop, f"keep={self.keep}")

    def _crop(self, text: str, random: Random) -> str:
        words = words_with_space(text)
        kept = max(1, int(self.keep * len(words) + 0.5))
        start = random.randrange(len(words) - kept + 1)
        return "".join(words[start : start + kept]).strip()
