"""The source `synonyms`: sentences, each with a copy in which synonyms replace some words as its positive."""

from __future__ import annotations

import math
import re
import string
import warnings
from collections.abc import Iterator
from random import Random
from typing import Any, ClassVar

import attrs
from attrs.validators import and_, gt, le
from sentbed import DataError

from sentbed_data.augmentation_base import Augmentation, Augmented
from sentbed_data.table_source_base import package_problems

_MOST = 10
"""Largest number of words that are replaced in a sentence."""

_TOKEN = re.compile(r"\w+|[^\w\s]")

# WordNet's part of speech for the first two letters of a Penn Treebank tag. A word with another tag is looked
# up as every part of speech.
_PARTS = {"NN": "n", "VB": "v", "JJ": "a", "RB": "r", "IN": "a"}


@attrs.frozen(kw_only=True)
class Synonyms(Augmentation):
    """A sentence, and a copy with some words replaced by synonyms from WordNet: SentBench's DA.

    Sentences must be English. The rules are those of the library that SentBench names, with its default settings
    (`SynonymAug` of nlpaug 1.1.11). Tokens that are neither punctuation nor determiners are drawn, anew in every
    epoch: the share `rate` of all tokens, rounded up, but at least one and at most ten. NLTK's tagger gives the
    part of speech. A drawn word is replaced by a random lemma of any sense of the word or of its base form as
    this part of speech; if the tag has no part of speech in WordNet, as any part of speech. Prepositions are
    looked up as adjectives. The synonym is in lower case and never inflected, but an initial capital is kept; a
    hyphen becomes a space. A drawn word without a synonym is kept. In one point this differs from nlpaug, which
    puts spaces around apostrophes and hyphens: the space between tokens is not changed.

    The source needs `sentbed-data[wordnet]`, and NLTK's data: `python -m nltk.downloader wordnet
    averaged_perceptron_tagger_eng`.
    """

    name: ClassVar[str] = "synonyms"
    cites = ("miller1995wordnet",)

    rate: float = attrs.field(default=0.3, validator=and_(gt(0.0), le(1.0)))
    """Share of all tokens to replace, in (0, 1]."""

    def check(self) -> Iterator[str]:
        """Yield problems that show without reading the data."""
        yield from super().check()
        yield from package_problems("nltk", "wordnet", "replacing words by synonyms")

    def open(self) -> Augmented:
        """Read the sentences, WordNet and the tagger. Raises `DataError` if one of them is missing or invalid."""
        import nltk
        from nltk.corpus.reader.wordnet import WordNetCorpusReader
        from nltk.tag.perceptron import PerceptronTagger

        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="The multilingual functions")
                # With the slash at its end, the directory is found in `wordnet.zip` too, as NLTK downloads it.
                place = nltk.data.find("corpora/wordnet/")
                lexicon = WordNetCorpusReader(place, None)

            tagger = PerceptronTagger()
        except LookupError as error:
            raise DataError(
                "NLTK lacks WordNet or its tagger; run `python -m nltk.downloader wordnet "
                "averaged_perceptron_tagger_eng`, or name their directory by the environment variable `NLTK_DATA`"
            ) from error

        def replace(text: str, random: Random) -> str:
            return replace_words(text, random, self.rate, tagger, lexicon)

        versions = f"wordnet={lexicon.get_version()} nltk={nltk.__version__}"

        return self._augmented(replace, f"rate={self.rate} {versions}")


def replace_words(
    text: str,
    random: Random,
    rate: float,
    tagger: Any,
    lexicon: Any,
) -> str:
    """Return a sentence with some words replaced by synonyms; the text between tokens is not changed.

    `tagger` is a `PerceptronTagger` of NLTK, `lexicon` its `WordNetCorpusReader`.
    """

    tokens = list(_TOKEN.finditer(text))
    words = [token[0] for token in tokens]
    tagged = tagger.tag(words)
    places = []
    for place, (word, tag) in enumerate(tagged):
        if word not in string.punctuation and tag != "DT":
            places.append(place)

    # The share `rate` is of all tokens, including punctuation and articles.
    replaced = max(1, math.ceil(rate * len(tokens)))
    count = min(replaced, _MOST, len(places))
    for place in sorted(random.sample(places, count), reverse=True):
        word, tag = tagged[place]
        others = []
        for synset in lexicon.synsets(word, _PARTS.get(tag[:2])):
            for lemma in synset.lemmas():
                if lemma.name().lower() != word.lower():
                    others.append(lemma.name())

        if not others:
            continue

        synonym = random.choice(others).replace("_", " ").replace("-", " ").lower()
        is_capitalised = word[0].isupper() and word[1:] == word[1:].lower()
        if is_capitalised and synonym.islower():
            synonym = synonym.capitalize()

        start, end = tokens[place].span()
        text = text[:start] + synonym + text[end:]

    return text
