"""Single sentences, each with some of its words missing as its positive."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import attrs

from sentbed_data.augment import Augmentation, Augmented
from sentbed_data.words import pieces


@attrs.frozen(kw_only=True)
class Delete(Augmentation):
    """A sentence, and the same with some of its words left out as the positive.

    Each word goes with probability `rate`, anew in every epoch; where all would go, one stays. A word is what
    stands between blanks; in Chinese, Japanese and Korean script every character is one. SimCSE compares it
    with dropout alone (Gao et al., 2021, table 1).
    """

    name: ClassVar[str] = "delete"
    papers: ClassVar[tuple[str, ...]] = ("gao2021simcse",)

    rate: float = attrs.field(
        default=0.1, validator=attrs.validators.and_(attrs.validators.gt(0.0), attrs.validators.lt(1.0))
    )
    """Probability of a word to be left out, in (0, 1); 0.1 is SimCSE's `word deletion 10%`."""

    def open(self) -> Augmented:
        """Read the file. Raises `DataError` that names file and line."""
        return self._augmented(self._delete, f"rate={self.rate}")

    def _delete(self, text: str, random: Random) -> str:
        words = pieces(text)
        kept = [word for word in words if random.random() >= self.rate]
        return "".join(kept or [random.choice(words)]).strip()
