"""The source `synonyms`: sentences, each with a copy in which synonyms replace some words as its positive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import ClassVar, Literal

import attrs
from attrs.validators import and_, ge, gt, le
from sentbed import DataError, FilePath

from sentbed_data.augmentation_base import Augmentation, Augmented
from sentbed_data.nlpaug_rules import MOST, TAGGER_FILES, find_tagger, open_nlpaug
from sentbed_data.parquet_arrow import require_package
from sentbed_data.wordnet import FILES, find_lexicon, open_lexicon

# A word in lower case, which may have hyphens inside, and is no part of a word with capitals, digits or
# apostrophes.
_WORD = re.compile(r"(?<![\w'’-])[a-z]{2,}(?:-[a-z]+)*(?![\w'’-])")


@attrs.frozen(kw_only=True)
class Synonyms(Augmentation):
    """A sentence, and a copy with some words replaced by synonyms from WordNet: SentBench's DA.

    Sentences must be English. With `rules = "careful"`, a word can be replaced if

    - it is in lower case, since a capitalised word may be a name;
    - it is no function word: under the spelling of most function words, WordNet has other words (`can`: a tin);
    - it is in its base form, since synonyms are inserted as the lexicon has them, never inflected. If it may be
      a form of several words (`saw`, `building`), the word and the part of speech that are most frequent by
      WordNet's counts are assumed, without a tagger;
    - the `senses` most frequent senses of this part of speech have a word with another spelling.

    The share `rate` of these words is replaced, rounded, but at least one word. The words and their synonyms
    are drawn uniformly, anew in every epoch. A synonym may have several words; `a` and `an` before a replaced
    word are not adapted. A sentence without a replaceable word is its own positive. The source needs
    `sentbed-data[wordnet]`.

    `rules = "nlpaug"` follows the library that SentBench names, with its default settings (`SynonymAug` of
    nlpaug 1.1.11). Tokens that are neither punctuation nor determiners are drawn: the share `rate` of all
    tokens, rounded up, but at least one and at most ten. NLTK's tagger gives the part of speech. A drawn word
    is replaced by a random lemma of any sense of the word or of its base form as this part of speech; if the
    tag has no part of speech in WordNet, as any part of speech. Prepositions are looked up as adjectives. The
    synonym is in lower case and never inflected, but an initial capital is kept; a hyphen becomes a space. A
    drawn word without a synonym is kept. In one point this differs from nlpaug, which puts spaces around
    apostrophes and hyphens: the space between tokens is not changed.
    """

    name: ClassVar[str] = "synonyms"
    cites = ("miller1995wordnet",)

    rate: float = attrs.field(default=0.3, validator=and_(gt(0.0), le(1.0)))
    """Share of the replaceable words to replace, in (0, 1]; with `rules = "nlpaug"`, share of all tokens."""
    rules: Literal["careful", "nlpaug"] = "careful"
    """The rules by which words are replaced; see above."""
    tagger: FilePath | None = None
    """Directory of NLTK's tagger (`averaged_perceptron_tagger_eng`), for `rules = "nlpaug"`.

    Default: the tagger among NLTK's data, whose directories the environment variable `NLTK_DATA` may name.
    """
    senses: int = attrs.field(default=1, validator=ge(1))
    """Number of a word's senses whose words are synonyms, from the most frequent sense on, at least 1; with
    `rules = "nlpaug"`, all senses."""
    lexicon: FilePath | None = None
    """Directory of WordNet's files (`index.noun`, `data.noun`, ...).

    Default: the directory in the environment variable `WNSEARCHDIR`, `dict` in `WNHOME`, or the directories
    of Debian's package `wordnet-base` (`/usr/share/wordnet`) and of NLTK.
    """

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        yield from super().check()
        try:
            self._require()
            find_lexicon(self.lexicon)
        except DataError as error:
            yield str(error)

        if self.rules == "nlpaug":
            try:
                find_tagger(self.tagger)
            except DataError as error:
                yield str(error)

            if self.senses != 1:
                yield f'`senses = {self.senses}` has no effect with `rules = "nlpaug"`; remove `senses`'
        elif self.tagger is not None:
            yield f'`tagger` has no effect with `rules = "{self.rules}"`; remove `tagger`'

    def files(self) -> Iterator[Path]:
        """Yield the files of lexicon and tagger, also if no field names them."""
        lexicon = find_lexicon(self.lexicon)
        for name in FILES:
            yield lexicon / name
        if self.rules == "nlpaug":
            tagger = find_tagger(self.tagger)
            for name in TAGGER_FILES:
                yield tagger / name

    def open(self) -> Augmented:
        """Read the file and the lexicon. Raises `DataError` if one of them is invalid."""
        self._require()
        lexicon = open_lexicon(self.lexicon, self.senses)
        if self.rules == "nlpaug":
            rules = open_nlpaug(lexicon, self.rate, self.tagger)
            return self._augmented(
                rules.replace,
                f"nlpaug rate={self.rate} most={MOST} lexicon={lexicon.fingerprint} "
                f"tagger={rules.fingerprint}",
            )

        def replace(text: str, random: Random) -> str:
            words = []
            for match in _WORD.finditer(text):
                if lexicon.synonyms(match[0]):
                    words.append(match)

            if not words:
                return text

            # From the last word on, so that the positions of earlier words remain valid.
            count = max(1, int(self.rate * len(words) + 0.5))
            drawn = random.sample(words, count)
            for match in sorted(drawn, key=re.Match.start, reverse=True):
                synonym = random.choice(lexicon.synonyms(match[0]))
                start, end = match.span()
                text = text[:start] + synonym + text[end:]

            return text

        return self._augmented(
            replace,
            f"rate={self.rate} senses={self.senses} lexicon={lexicon.fingerprint}",
        )

    @staticmethod
    def _require() -> None:
        """Raise `DataError` if NLTK is not installed."""
        require_package("nltk", "wordnet")
