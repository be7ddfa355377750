"""Single sentences, with a copy in which synonyms replace some words as the positive."""

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
from sentbed_data.parquet_arrow import require
from sentbed_data.wordnet import FILES, find_lexicon, open_lexicon

# A lower-case word, hyphens allowed inside; not part of a word with a capital, a digit or an apostrophe.
_WORD = re.compile(r"(?<![\w'’-])[a-z]{2,}(?:-[a-z]+)*(?![\w'’-])")


@attrs.frozen(kw_only=True)
class Synonyms(Augmentation):
    """A sentence, and a copy with some words replaced by WordNet's synonyms: SentBench's DA.

    English only. By the rules `careful`, a word can be replaced if

    - it is in lower case: a capitalised word may be a name;
    - it is not a function word: WordNet lists few of them, and other things under their spelling (`can`: a
      tin);
    - it is in its base form: synonyms are inserted as the lexicon has them, never inflected. A form of
      several words (`saw`, `building`) is taken as the one that WordNet counts most often, and so is its part
      of speech; there is no tagger;
    - the `senses` most frequent senses of that part of speech include a word of another spelling.

    The share `rate` of these words is replaced, rounded, at least one. The words and their synonyms are drawn
    uniformly, again in every epoch. Synonyms of several words are joined by blanks; `a` and `an` before a
    replaced word stay. A sentence without a replaceable word is its own positive. Needs
    `sentbed-data[wordnet]`.

    The rules `nlpaug` are those of the library that SentBench names, by its defaults (`SynonymAug` of nlpaug
    1.1.11): the share `rate` of all tokens is drawn, rounded up, at least one and at most ten, of those that
    are neither punctuation nor determiners. NLTK's tagger says the part of speech. A drawn word is replaced
    by a lemma of any sense of that part, or of any part if WordNet has none for the tag, of the word or of
    its base form; prepositions are looked up as adjectives. The synonym is in lower case and never inflected,
    a capital at the beginning stays, and a hyphen becomes a blank. A drawn word without a synonym stays.
    Unlike there, the space between tokens stays as well: nlpaug puts blanks around apostrophes and hyphens.
    """

    name: ClassVar[str] = "synonyms"
    papers: ClassVar[tuple[str, ...]] = ("miller1995wordnet",)

    rate: float = attrs.field(default=0.3, validator=and_(gt(0.0), le(1.0)))
    """Share of the replaceable words to replace, in (0, 1]; with `rules = "nlpaug"`, of all tokens."""
    rules: Literal["careful", "nlpaug"] = "careful"
    """Which words are replaced and by what: see above."""
    tagger: FilePath | None = None
    """Directory of NLTK's tagger (`averaged_perceptron_tagger_eng`), for `rules = "nlpaug"`.

    Default: that in NLTK's directories, which the environment variable `NLTK_DATA` may name.
    """
    senses: int = attrs.field(default=1, validator=ge(1))
    """Number of senses of a word that give synonyms, at least 1, the most frequent ones first; with
    `rules = "nlpaug"`, all senses do."""
    lexicon: FilePath | None = None
    """Directory of WordNet's files (`index.noun`, `data.noun`, ...).

    Default: the directory in the environment variable `WNSEARCHDIR`, `dict` in `WNHOME`, or the directories
    of Debian's package `wordnet-base` (`/usr/share/wordnet`) and of NLTK.
    """

    def check(self) -> Iterator[str]:
        """Problems that show without reading the data."""
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
        """Yield the files of lexicon and tagger, even if no field names them."""
        lexicon = find_lexicon(self.lexicon)
        for name in FILES:
            yield lexicon / name
        if self.rules == "nlpaug":
            tagger = find_tagger(self.tagger)
            for name in TAGGER_FILES:
                yield tagger / name

    def open(self) -> Augmented:
        """Read the file and the lexicon. Raises `DataError` with file and line."""
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
            words = [
                match for match in _WORD.finditer(text) if lexicon.synonyms(match[0])
            ]
            if not words:
                return text
            count = max(1, int(self.rate * len(words) + 0.5))
            for match in sorted(
                random.sample(words, count),
                key=lambda match: match.start(),
                reverse=True,
            ):
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
        require("nltk", "wordnet")
