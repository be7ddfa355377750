from __future__ import annotations

import shutil

import pytest
from sentbed import DataError
from sentbed_data.synonyms import Synonyms


@pytest.fixture
def positives(put, nltk_data):
    """Return the positives of a sentence in some epochs."""

    def positives_of(text, epochs=60, **fields):
        table = Synonyms(path=put("a.txt", text + "\n"), **fields).open()
        texts = set()
        for epoch in range(epochs):
            texts.update(table.rows([0], epoch)["positive"])

        return texts

    return positives_of


def test_every_sense_of_the_tagged_part_is_taken_and_a_capital_kept(positives):
    assert positives("The big house, soon!", rate=1.0) == {
        "The large dwelling, shortly!",
        "The large abode, shortly!",
        "The large firm, shortly!",
    }
    expected = {"Large dwelling", "Large abode", "Large firm"}
    assert positives("Big HOUSE", rate=1.0) == expected


def test_inflected_forms_are_replaced_by_synonyms_of_their_base_forms(positives):
    # `saw` is tagged as a verb: WordNet has it as one, and as a form of `see`, which is a synonym then.
    replacements = positives("The houses saw a number .", 300, rate=1.0)
    nouns = ("house", "dwelling", "abode", "firm")
    verbs = ("see", "perceive", "cut through")
    expected = set()
    for noun in nouns:
        expected.update(f"The {noun} {verb} a figure ." for verb in verbs)

    assert replacements == expected


@pytest.mark.parametrize(
    ("words", "rate", "replaced"),
    [(1, 0.3, 1), (4, 0.3, 2), (10, 0.3, 4), (40, 0.3, 10), (9, 1.0, 9)],
)
def test_the_share_of_all_tokens_is_rounded_up_to_at_most_ten(
    positives, words, rate, replaced
):
    # With the full stop as a token: 0.3 x 5 is 1.5, so 2 are replaced.
    replacements = positives(" ".join(["big"] * words) + ".", 5, rate=rate)
    assert {positive.count("large") for positive in replacements} == {replaced}


def test_the_seed_decides_and_is_in_the_fingerprint(put, nltk_data):
    path = put("a.txt", "".join(f"big house {i} house house\n" for i in range(30)))
    source = Synonyms(path=path)
    first, again = source.open(), source.open()
    assert first.rows(range(30)) == again.rows(range(30))
    assert first.rows(range(30)) != first.rows(range(30), epoch=1)
    other = Synonyms(path=path, seed=1).open()
    assert first.rows(range(30)) != other.rows(range(30))
    faster = Synonyms(path=path, rate=0.5).open()
    assert len({table.fingerprint for table in (first, other, faster)}) == 3


def test_wordnet_is_read_from_the_archive_that_nltk_downloads(positives, nltk_data):
    corpora = nltk_data / "corpora"
    shutil.make_archive(str(corpora / "wordnet"), "zip", corpora, "wordnet")
    shutil.rmtree(corpora / "wordnet")
    assert positives("soon", 1) == {"shortly"}


def test_missing_data_of_nltk_is_named_with_its_download(put, monkeypatch):
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    source = Synonyms(path=put("a.txt", "big\n"))
    assert list(source.check()) == []
    with pytest.raises(DataError, match=r"python -m nltk\.downloader wordnet"):
        source.open()


@pytest.mark.parametrize("rate", [0.0, 1.1])
def test_a_rate_out_of_range_is_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        Synonyms(path="a.txt", rate=rate)
