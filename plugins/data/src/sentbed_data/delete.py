"""The source `delete`: sentences, each with a copy that lacks some words as its positive."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from attrs.validators import and_, gt, lt

from sentbed_data.augmentation_base import Augmentation, Augmented
from sentbed_data.word_splitting import words_with_space


@attrs.frozen(kw_only=True)
class Delete(Augmentation):
    """A sentence, and the same sentence without some of its words as the positive.

    Each word is deleted with probability `rate`, anew in every epoch; at least one word is kept. Words are
    separated by white space; in Chinese, Japanese and Korean script every character is a word. SimCSE compares
    this source with dropout alone (Gao et al., 2021, table 1).
    """

    name: ClassVar[str] = "delete"
    cites = ("gao2021simcse",)

    rate: float = attrs.field(default=0.1, validator=and_(gt(0.0), lt(1.0)))
    """Probability of deleting a word, in (0, 1); 0.1 is SimCSE's `word deletion 10%`."""

    def open(self) -> Augmented:
        """Read the file. Raises `DataError`, with file and line, if a row is invalid."""
        return self._augmented(self._delete, f"rate={self.rate}")

    def _delete(self, text: str, random: Random) -> str:
        words = words_with_space(text)
        kept = [word for word in words if random.random() >= self.rate]
        return "".join(kept or [random.choice(words)]).strip()
