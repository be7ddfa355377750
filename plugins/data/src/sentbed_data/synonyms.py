"""Single sentences, each with some words replaced by synonyms as its positive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import ClassVar

import attrs
from sentbed import DataError, FilePath

from sentbed_data.augment import Augmentation, Augmented
from sentbed_data.library_formats import require
from sentbed_data.wordnet import FILES, find_lexicon, open_lexicon

# A word of small letters, hyphens inside; not part of a word with a capital, a digit or an apostrophe.
_WORD = re.compile(r"(?<![\w'’-])[a-z]{2,}(?:-[a-z]+)*(?![\w'’-])")


@attrs.frozen(kw_only=True)
class Synonyms(Augmentation):
    """A sentence, and the same with some words replaced by WordNet's synonyms: SentBench's DA.

    English only. A word can be replaced where

    - it is written in small letters: one with a capital may be a name;
    - it is no function word: WordNet lists few of them, and under their spelling other things (`can`: a tin);
    - it stands in its base form: a synonym is put in as the lexicon has it, and never inflected. A form that
      belongs to several words (`saw`, `building`) is taken for the one that WordNet counts most often, and so
      is its part of speech; there is no tagger;
    - the `senses` most frequent senses of that part of speech have a word of another spelling.

    Of these words a share `rate` is replaced, rounded, at least one; which, and by which synonym, is chosen
    anew in every epoch, all synonyms alike. Those of several words get blanks between them; `a` and `an`
    before a replaced word stay. A sentence in which nothing can be replaced is its own positive. Needs
    `sentbed-data[wordnet]`.
    """

    name: ClassVar[str] = "synonyms"
    papers: ClassVar[tuple[str, ...]] = ("miller1995wordnet",)

    rate: float = attrs.field(
        default=0.3, validator=attrs.validators.and_(attrs.validators.gt(0.0), attrs.validators.le(1.0))
    )
    """Share of the words that can be replaced which are, in (0, 1]."""
    senses: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """How many senses of a word give synonyms, at least 1, the most frequent ones first."""
    lexicon: FilePath | None = None
    """Directory of WordNet's files (`index.noun`, `data.noun`, ...).

    Where not given: the one that the environment variable `WNSEARCHDIR` names, `dict` in `WNHOME`, or where
    Debian's package `wordnet-base` (`/usr/share/wordnet`) and NLTK put it.
    """

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
        yield from super().check()
        try:
            self._require()
            find_lexicon(self.lexicon)
        except DataError as error:
            yield str(error)

    def files(self) -> Iterator[Path]:
        """Yield the files of the lexicon, also of one that no field names."""
        place = find_lexicon(self.lexicon)
        yield from (place / name for name in FILES)

    def open(self) -> Augmented:
        """Read the file and the lexicon. Raises `DataError` that names file and line."""
        self._require()
        lexicon = open_lexicon(self.lexicon, self.senses)

        def replace(text: str, random: Random) -> str:
            words = [
                (match, known) for match in _WORD.finditer(text) if (known := lexicon.synonyms(match[0]))
            ]
            if not words:
                return text
            chosen = random.sample(words, max(1, int(self.rate * len(words) + 0.5)))
            for match, known in sorted(chosen, key=lambda item: item[0].start(), reverse=True):
                text = text[: match.start()] + random.choice(known) + text[match.end() :]
            return text

        return self._augmented(
            replace, f"rate={self.rate} senses={self.senses} lexicon={lexicon.fingerprint}"
        )

    @staticmethod
    def _require() -> None:
        require("nltk", "wordnet")
