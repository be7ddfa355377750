"""Single sentences, with a part of each as its positive."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs
from attrs.validators import and_, gt, lt

from sentbed_data.augmentation_base import Augmentation, Augmented
from sentbed_data.word_splitting import pieces


@attrs.frozen(kw_only=True)
class Crop(Augmentation):
    """A sentence, and a run of its words as the positive.

    The run has the share `keep` of the words, rounded, at least one; its start is drawn again in every epoch.
    Words are separated by blanks; in Chinese, Japanese and Korean script every character is a word. SimCSE
    compares it with dropout alone (Gao et al., 2021, table 1).
    """

    name: ClassVar[str] = "crop"
    papers: ClassVar[tuple[str, ...]] = ("gao2021simcse",)

    keep: float = attrs.field(default=0.9, validator=and_(gt(0.0), lt(1.0)))
    """Share of the words to keep, in (0, 1); 0.9 is SimCSE's `crop 10%`."""

    def open(self) -> Augmented:
        """Read the file. Raises `DataError` with file and line."""
        return self._augmented(self._crop, f"keep={self.keep}")

    def _crop(self, text: str, random: Random) -> str:
        words = pieces(text)
        kept = max(1, int(self.keep * len(words) + 0.5))
        start = random.randrange(len(words) - kept + 1)
        return "".join(words[start : start + kept]).strip()
