"""The known collections that the data sources read, with their origins."""

from __future__ import annotations

from sentbed_common import KnownArchive, KnownData, KnownFile

from sentbed_data import wordnet

_HUB = "https://huggingface.co/datasets/princeton-nlp/datasets-for-simcse"

KNOWN = (
    KnownData(
        name="nli-for-simcse",
        summary='SNLI and MNLI as triplets with hard negatives: triplets, path = "data:nli_for_simcse.csv"',
        places=(".",),
        files=(
            KnownFile(
                "nli_for_simcse.csv",
                rows=275_601,
                header=True,
                url=f"{_HUB}/resolve/main/nli_for_simcse.csv",
            ),
        ),
        source=_HUB,
    ),
    KnownData(
        name="wiki1m-for-simcse",
        summary='a million sentences of Wikipedia: dropout, path = "data:wiki1m_for_simcse.txt"',
        places=(".",),
        files=(
            KnownFile(
                "wiki1m_for_simcse.txt", rows=1_000_000, url=f"{_HUB}/resolve/main/wiki1m_for_simcse.txt"
            ),
        ),
        source=_HUB,
    ),
    KnownData(
        name="wordnet",
        summary='WordNet 3.0, as NLTK has it: synonyms, lexicon = "data:wordnet"',
        places=("wordnet",),
        files=tuple(KnownFile(name) for name in wordnet.FILES),
        source="https://wordnet.princeton.edu",
        archives=(
            KnownArchive(
                "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/wordnet.zip"
            ),
        ),
        licence="WordNet's own, free for any use",
        advice="`apt-get install wordnet-base` puts it where it is found without `lexicon`",
    ),
)
"""The collections."""


def known_file(location: str) -> tuple[KnownData, KnownFile] | None:
    """Return the known file that `data:PATH` names, with its collection; None if it names none."""
    for known in KNOWN:
        for file in known.files:
            places = ("" if place == "." else f"{place}/" for place in known.places)
            if any(location == f"data:{place}{file.path}" for place in places):
                return known, file
    return None
