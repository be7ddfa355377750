"""Replacement of words by synonyms with the rules of nlpaug's `SynonymAug` (version 1.1.11, default settings)."""

from __future__ import annotations

import json
import math
import os
import re
import string
import sys
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import attrs
from sentbed import DataError, locate
from sentbed.errors import listed

from sentbed_data.wordnet import Lexicon

TAGGER = "averaged_perceptron_tagger_eng"
"""Name of NLTK's tagger, and of its directory."""

TAGGER_FILES = (
    f"{TAGGER}.weights.json",
    f"{TAGGER}.tagdict.json",
    f"{TAGGER}.classes.json",
)
"""The files of the tagger."""

MOST = 10
"""Largest number of words that are replaced in a sentence."""

_TOKEN = re.compile(r"\w+|[^\w\s]")

# WordNet's part of speech for the first two letters of a Penn Treebank tag. A word with another tag is looked
# up as every part of speech.
_PARTS = {"NN": "n", "VB": "v", "JJ": "a", "RB": "r", "IN": "a"}

_GET_IT = (
    f"get it (`python -m nltk.downloader {TAGGER}`), or name the directory of its files by `tagger` or "
    "NLTK's by the environment variable `NLTK_DATA`"
)


@attrs.frozen(eq=False)
class NlpaugRules:
    """Replaces words of a sentence by synonyms, as nlpaug's `SynonymAug` does; see `Synonyms`."""

    lexicon: Lexicon
    tagger: Any
    """NLTK's `PerceptronTagger`."""
    rate: float
    fingerprint: str
    """SHA-256 over the files of the tagger."""

    def replace(self, text: str, random: Random) -> str:
        """Return the sentence with some words replaced by synonyms; the text between tokens is not changed."""
        tokens = list(_TOKEN.finditer(text))
        tagged = self.tagger.tag([token[0] for token in tokens])
        places = []
        for place, (word, tag) in enumerate(tagged):
            if word not in string.punctuation and tag != "DT":
                places.append(place)

        # The share `rate` is of all tokens, including punctuation and articles.
        replaced = max(1, math.ceil(self.rate * len(tokens)))
        count = min(replaced, MOST, len(places))
        for place in sorted(random.sample(places, count), reverse=True):
            word, tag = tagged[place]
            lemmas = self.lexicon.lemmas(word, _PARTS.get(tag[:2]))
            others = [lemma for lemma in lemmas if lemma.lower() != word.lower()]
            if not others:
                continue

            synonym = random.choice(others).replace("_", " ").replace("-", " ").lower()
            if _is_capitalised(word) and synonym.islower():
                synonym = synonym.capitalize()

            start, end = tokens[place].span()
            text = text[:start] + synonym + text[end:]

        return text


def _is_capitalised(word: str) -> bool:
    """Whether the first letter is a capital, and no other letter is."""
    return word[0].isupper() and not any(map(str.isupper, word[1:]))


def find_tagger(tagger: str | None) -> Path:
    """Return the directory of the tagger's files: `tagger` or, if it is None, the directory among NLTK's data.

    Raises:
        DataError: if there is no tagger, or it lacks a file.
    """
    if tagger is not None:
        place = locate(tagger)
    else:
        place = _tagger_of_nltk()

    for name in TAGGER_FILES:
        if not (place / name).is_file():
            raise DataError(
                f"this is no tagger of NLTK: it has no file `{name}`; {_GET_IT}", place
            )

    return place


def _tagger_of_nltk() -> Path:
    """Return the tagger's directory among NLTK's data. Raises `DataError` if there is none."""
    names = os.environ.get("NLTK_DATA", "").split(os.pathsep)
    # The order is that of `nltk.data.path` on Unix.
    directories = [
        *map(Path, filter(None, names)),
        Path("~/nltk_data").expanduser(),
        Path(sys.prefix) / "nltk_data",
        Path(sys.prefix) / "share" / "nltk_data",
        Path(sys.prefix) / "lib" / "nltk_data",
        Path("/usr/share/nltk_data"),
        Path("/usr/local/share/nltk_data"),
        Path("/usr/lib/nltk_data"),
        Path("/usr/local/lib/nltk_data"),
    ]
    for directory in directories:
        place = directory / "taggers" / TAGGER
        if place.is_dir():
            return place

    raise DataError(
        f"there is no tagger of NLTK in {listed(map(str, directories))}; {_GET_IT}"
    )


def open_nlpaug(
    lexicon: Lexicon,
    rate: float,
    tagger: str | None,
) -> NlpaugRules:
    """Load the tagger, which takes some seconds; `tagger` as for `find_tagger`.

    Raises:
        DataError: if there is no tagger, or its files are damaged.
    """
    from nltk.tag.perceptron import PerceptronTagger

    place = find_tagger(tagger)
    try:
        files = [(place / name).read_bytes() for name in TAGGER_FILES]
        weights, tags, classes = map(json.loads, files)
        # The tagger's own method `load_from_json` refuses directories that are not NLTK's.
        loaded = PerceptronTagger(load=False)
        loaded.model.weights = dict(weights)
        loaded.tagdict = dict(tags)
        loaded.classes = loaded.model.classes = set(classes)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"NLTK's tagger cannot be read: {error}; {_GET_IT}", place
        ) from error

    fingerprint = sha256(b"".join(files)).hexdigest()
    return NlpaugRules(lexicon, loaded, rate, fingerprint)
