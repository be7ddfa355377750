"""Synonyms from WordNet's own files, read with NLTK."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import attrs
from sentbed import DataError, locate
from sentbed.errors import listed

FILES = (
    *("index.noun", "index.verb", "index.adj", "index.adv"),
    *("data.noun", "data.verb", "data.adj", "data.adv"),
    *("noun.exc", "verb.exc", "adj.exc", "adv.exc"),
    "cntlist.rev",
)
"""The files of WordNet that are read."""

_PLACES = (
    "/usr/share/wordnet",
    "/usr/share/nltk_data/corpora/wordnet",
    "~/nltk_data/corpora/wordnet",
)

_GET_IT = (
    "install one (`apt-get install wordnet-base`, or WordNet's `dict` directory from wordnet.princeton.edu) "
    "and name its directory by `lexicon` or the environment variable `WNSEARCHDIR`"
)

# Function words. WordNet has other words of the same spelling: `a` is an angstrom, `he` helium, `can` a tin.
_FUNCTION_WORDS = frozenset(
    """
    a about above across after against all along also although always am amid among an and another any
    anybody anyone anything are around as at away back be because been before behind being below beneath
    beside besides between beyond both but by can cannot could despite did do does doing done down
    during each either else enough even ever every everybody everyone everything except few for from
    further get gets getting go goes going gone got had has have having he hence her here hers herself
    him himself his how however i if in inside instead into is it its itself just least less let like
    many may me might mine more moreover most much must my myself near neither never no nobody none nor
    not nothing now of off often on once one only onto or other others otherwise ought our ours
    ourselves out outside over own per perhaps quite rather same shall she should since so some somebody
    someone something still such than that the their theirs them themselves then there therefore these
    they this those though through throughout thus till to together too toward towards two under unless
    until up upon us very was we well were what whatever when whenever where whereas wherever whether
    which while who whoever whole whom whose why will with within without would yet you your yours
    yourself yourselves
    """.split()  # noqa: SIM905 - quotes around two hundred words would hide them
)


@attrs.frozen(eq=False)
class Lexicon:
    """WordNet as a source of synonyms."""

    reader: Any
    """NLTK's `WordNetCorpusReader`."""
    place: Path
    """The directory of WordNet's files."""
    fingerprint: str
    """SHA-256 over the files."""
    senses: int
    """How many senses of a word give synonyms, the most frequent senses first."""
    _synonyms: dict[str, tuple[str, ...]] = attrs.field(factory=dict, init=False)
    """Word -> results of `synonyms`."""
    _lemmas: dict[str, tuple[str, ...]] = attrs.field(factory=dict, init=False)
    """`WORD/PART` -> results of `lemmas`."""

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Return the synonyms of a lower-case word, those of its most frequent sense first.

        Function words have none, nor has a word that is more likely a form of another word (`saw`). These are the
        rules `careful` of `sentbed_data.synonyms.Synonyms`.
        """
        if word in _FUNCTION_WORDS:
            return ()
        if word not in self._synonyms:
            with _readable(self.place):
                self._synonyms[word] = self._look_up(word)

        return self._synonyms[word]

    def lemmas(self, word: str, part: str | None) -> tuple[str, ...]:
        """Return the lemmas of all senses of a word or its base forms; a lemma of several senses is repeated.

        `part` is WordNet's letter for a part of speech (`n`, `v`, `a`, `r`), or None for all parts of speech.
        """
        key = f"{word.lower()}/{part}"
        if key not in self._lemmas:
            with _readable(self.place):
                names = []
                for lemma in _lemmas_of(self.reader.synsets(word, part)):
                    names.append(lemma.name())
                self._lemmas[key] = tuple(names)

        return self._lemmas[key]

    def _senses(self, word: str) -> tuple[list[list[Any]], list[Any]]:
        """Return a word's senses by part of speech, and the lemmas of which it may be an inflected form.

        For `saw`, these are the senses of the noun and of the verb `saw`, and the lemmas `see`, one per sense.
        """
        senses_by_part: list[list[Any]] = []
        other_lemmas: list[Any] = []
        for part in "nvar":
            # `synsets` returns the senses of the word and of its base forms.
            base_forms = self.reader.base_forms(word, part)
            senses: list[Any] = []
            for synset in self.reader.synsets(word, part):
                if self._lemma(synset, word):
                    senses.append(synset)
                    continue
                for lemma in synset.lemmas():
                    if lemma.name().lower() in base_forms:
                        other_lemmas.append(lemma)

            if senses:
                senses_by_part.append(senses)

        return senses_by_part, other_lemmas

    def _look_up(self, word: str) -> tuple[str, ...]:
        """Return the synonyms of a word; none if it is more likely a form of another word."""
        senses_by_part, other_lemmas = self._senses(word)
        if not senses_by_part:
            return ()

        senses = senses_by_part[0]
        if other_lemmas or len(senses_by_part) > 1:
            # Only here, since each count is a search in a file.
            frequencies = [self._frequency(word, part) for part in senses_by_part]
            highest = max(frequencies)
            counts_of_others = [lemma.count() for lemma in other_lemmas]
            if highest <= max(counts_of_others, default=-1):
                return ()
            senses = senses_by_part[frequencies.index(highest)]

        synonyms = []
        for lemma in _lemmas_of(senses[: self.senses]):
            name = lemma.name().replace("_", " ")
            if name.lower() != word:
                synonyms.append(name)

        return tuple(dict.fromkeys(synonyms))

    def _frequency(self, word: str, senses: list[Any]) -> int:
        """Return how often a word occurs in WordNet's corpus in the most frequent of these senses."""
        return max(int(self._lemma(synset, word).count()) for synset in senses)

    @staticmethod
    def _lemma(synset: Any, word: str) -> Any:
        """Return the lemma of a sense that is the word; None if there is none."""
        for lemma in synset.lemmas():
            if lemma.name().lower() == word:
                return lemma

        return None


def _lemmas_of(synsets: Iterable[Any]) -> list[Any]:
    """Return the lemmas of all senses."""
    lemmas: list[Any] = []
    for synset in synsets:
        lemmas += synset.lemmas()
    return lemmas


def find_lexicon(lexicon: str | None) -> Path:
    """Return the directory of WordNet: `lexicon`, that in `WNSEARCHDIR` or `WNHOME`, or a usual path.

    Raises:
        DataError: if there is no WordNet, or it lacks a file.
    """
    if lexicon is not None:
        place = locate(lexicon)
    elif directory := os.environ.get("WNSEARCHDIR"):
        place = locate(directory)
    elif home := os.environ.get("WNHOME"):
        place = locate(str(Path(home) / "dict"))
    else:
        places = [Path(name).expanduser() for name in _PLACES]
        for place in places:
            if (place / "index.noun").is_file():
                break
        else:
            raise DataError(
                f"there is no WordNet in {listed(map(str, places))}; {_GET_IT}"
            )

    for name in FILES:
        if not (place / name).is_file():
            raise DataError(
                f"this is no WordNet: it has no file `{name}`; {_GET_IT}", place
            )

    return place


def open_lexicon(lexicon: str | None, senses: int) -> Lexicon:
    """Load WordNet's index, which takes about a second; `lexicon` as for `find_lexicon`.

    Raises:
        DataError: if there is no WordNet, or its files are damaged.
    """
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    place = find_lexicon(lexicon)
    try:
        files = {name: (place / name).read_bytes() for name in FILES}
    except OSError as error:
        raise DataError(
            f"WordNet's files cannot be read: {error.strerror or error}", place
        ) from error

    fingerprint = sha256(b"".join(files.values())).hexdigest()
    # `lexnames` lists the lexicographers' files. NLTK needs it without using its content, and Debian leaves it
    # out.
    files["lexnames"] = b"".join(
        b"%02d %d 0\n" % (number, number) for number in range(100)
    )

    class Reader(WordNetCorpusReader):  # type: ignore[misc]  # NLTK has no types
        def open(self, file: str) -> Any:
            # The files are in memory, since NLTK would leave them open.
            return nltk.data.SeekableUnicodeStreamReader(
                BytesIO(files[file]), self._ENCODING
            )

        def base_forms(self, word: str, part: str) -> list[str]:
            """Return the words of which a word may be a form (itself, too), as `synsets` looks them up."""
            forms: list[str] = self._morphy(word, part)
            return forms

        def map_wn(self, version: str = "wordnet") -> None:
            """Do nothing: the map is for languages that are not used, and would need a second WordNet."""

    # NLTK only reads files in the directories of this list.
    if str(place) not in nltk.data.path:
        nltk.data.path.append(str(place))
    with _readable(place), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The multilingual functions")
        return Lexicon(Reader(str(place), None), place, fingerprint, senses)


@contextmanager
def _readable(place: Path) -> Iterator[None]:
    """Turn exceptions about damaged files of WordNet into a `DataError`."""
    from nltk.corpus.reader.wordnet import WordNetError

    try:
        yield
    except (
        WordNetError,
        ValueError,
        AssertionError,
        LookupError,
        StopIteration,
    ) as error:
        reason = str(error) or type(error).__name__
        raise DataError(
            f"WordNet's files cannot be read: {reason}; {_GET_IT}", place
        ) from error
