from __future__ import annotations

import json
import os

import attrs
import pytest
from sentbed import DataError
from sentbed_data.nlpaug_rules import TAGGER, TAGGER_FILES, find_tagger
from sentbed_data.synonyms import Synonyms
from sentbed_data.wordnet import find_lexicon


def positives(source, epochs=60):
    table = source.open()
    return {table.rows([0], epoch)["positive"][0] for epoch in range(epochs)}


def test_all_replaceable_words_are_replaced_at_a_rate_of_one(put, wordnet):
    source = Synonyms(
        path=put("a.txt", "The big house, soon!\n"), rate=1.0, lexicon=str(wordnet)
    )
    assert positives(source) == {
        "The large dwelling, shortly!",
        "The large abode, shortly!",
    }
    assert source.columns == source.open().columns == ("anchor", "positive")
    assert list(source.check()) == []


@pytest.mark.parametrize(
    "text",
    [
        "House of BIG numbers",  # capitals, and an inflected form
        "houses saw seen can",
        "the house's big-ness, house1 _big_ ex-house house’s",
        "我们 zebra",
    ],
)
def test_names_inflected_forms_and_parts_of_words_stay(put, wordnet, text):
    source = Synonyms(
        path=put("a.txt", text + "\n"), rate=1.0, senses=9, lexicon=str(wordnet)
    )
    assert positives(source, 5) == {text}


@pytest.mark.parametrize(
    ("rate", "replaced"), [(0.01, 1), (0.3, 3), (0.45, 5), (1.0, 10)]
)
def test_the_rate_is_the_share_of_replaceable_words(put, wordnet, rate, replaced):
    text = "the " + " ".join(["big"] * 10)
    replacements = positives(
        Synonyms(path=put("a.txt", text + "\n"), rate=rate, lexicon=str(wordnet))
    )
    assert {positive.split().count("large") for positive in replacements} == {replaced}
    assert {len(positive.split()) for positive in replacements} == {11}
    places = {
        i
        for positive in replacements
        for i, word in enumerate(positive.split())
        if word == "large"
    }
    assert places == set(range(1, 11))


def test_synonyms_of_several_words_are_set_with_blanks(put, wordnet):
    source = Synonyms(path=put("a.txt", "a garden.\n"), lexicon=str(wordnet))
    assert positives(source, 3) == {"a kitchen plot."}


def test_everything_that_decides_a_row_is_in_the_fingerprint(put, wordnet):
    path = put("a.txt", "the big house\n")
    fields = [{}, {"seed": 1}, {"rate": 0.5}, {"senses": 2}]
    fingerprints = {
        Synonyms(path=path, lexicon=str(wordnet), **changed).open().fingerprint
        for changed in fields
    }
    (wordnet / "noun.exc").write_text("houses house\n")
    fingerprints.add(Synonyms(path=path, lexicon=str(wordnet)).open().fingerprint)
    assert len(fingerprints) == 5


def test_seeds_choose_differently(put, wordnet):
    path = put("a.txt", "".join(f"big house {i} house house\n" for i in range(30)))
    first, second = (
        Synonyms(path=path, lexicon=str(wordnet), seed=seed).open() for seed in (0, 1)
    )
    assert first.rows(range(30)) != second.rows(range(30))
    assert first.rows(range(30)) != first.rows(range(30), epoch=1)
    again = Synonyms(path=path, lexicon=str(wordnet)).open()
    assert first.rows(range(30)) == again.rows(range(30))


def test_a_missing_library_is_named_with_its_extra(put, wordnet, monkeypatch):
    source = Synonyms(path=put("a.txt", "big\n"), lexicon=str(wordnet))
    monkeypatch.setattr(
        "sentbed_data.parquet_arrow.importlib.util.find_spec", lambda name: None
    )
    assert ["sentbed-data[wordnet]" in problem for problem in source.check()] == [True]
    with pytest.raises(
        DataError,
        match=r"needs the package `nltk`.*pip install 'sentbed-data\[wordnet\]'",
    ):
        source.open()


def test_a_missing_lexicon_is_found_by_check(put, tmp_path):
    source = Synonyms(path=put("a.txt", "big\n"), lexicon=str(tmp_path / "none"))
    assert [
        problem.endswith("does not exist; check the path") for problem in source.check()
    ] == [True]


@pytest.mark.parametrize("field", [{"rate": 0.0}, {"rate": 1.1}, {"senses": 0}])
def test_parameters_out_of_range_are_refused(field):
    with pytest.raises(ValueError, match=next(iter(field))):
        Synonyms(path="a.txt", **field)


def test_most_sentences_of_a_novel_change(real):
    try:
        find_lexicon(None)
    except DataError as error:
        pytest.skip(f"needs WordNet: {error}")
    table = Synonyms(path=real("narrative/books/alice_in_wonderland.sent.txt")).open()
    assert len(table) == 1430
    rows = table.rows(range(1430))
    changed = sum(a != b for a, b in zip(rows["anchor"], rows["positive"], strict=True))
    assert changed > 1430 / 2


TAGGED = (
    "The/DT big/JJ house/NN ,/, soon/RB !/.",
    "The/DT houses/NNS saw/VBD a/DT number/NN ./.",
    "Big/JJ HOUSE/NN",
    "BIG/JJ garden/NN seen/VBN on/IN earth/NN ./.",
)


@pytest.fixture
def tagger(tmp_path):
    """NLTK's tagger, trained on the words of the tests."""
    from nltk.tag.perceptron import PerceptronTagger

    trained = PerceptronTagger(load=False)
    trained.train(
        [[tuple(pair.rsplit("/", 1)) for pair in line.split()] for line in TAGGED * 30]
    )
    directory = tmp_path / "taggers" / "averaged_perceptron_tagger_eng"
    directory.mkdir(parents=True)
    parts = (trained.model.weights, trained.tagdict, sorted(trained.classes))
    for name, part in zip(TAGGER_FILES, parts, strict=True):
        (directory / name).write_text(json.dumps(part))
    return directory


@pytest.fixture
def nlpaug(put, wordnet, tagger):
    """Return a source of one sentence, by the rules of nlpaug."""

    def source(text, **fields):
        path = put("a.txt", text + "\n")
        return Synonyms(
            path=path,
            rules="nlpaug",
            lexicon=str(wordnet),
            tagger=str(tagger),
            **fields,
        )

    return source


def test_nlpaug_takes_every_sense_of_the_tagged_part_and_keeps_a_capital(
    nlpaug,
):
    source = nlpaug("The big house, soon!", rate=1.0)
    assert list(source.check()) == []
    houses = ("dwelling", "abode", "firm")
    assert positives(source) == {f"The large {house}, shortly!" for house in houses}
    assert positives(nlpaug("Big HOUSE", rate=1.0)) == {
        f"Large {house}" for house in houses
    }


def test_nlpaug_replaces_inflected_forms_by_synonyms_of_their_base_forms(
    nlpaug,
):
    # `saw` is tagged as a verb: WordNet has it as one, and as a form of `see`, which is a synonym then.
    text = "The houses saw a number ."
    replacements = positives(nlpaug(text, rate=1.0), 300)
    words = [
        set(column)
        for column in zip(
            *(positive.split(" a ") for positive in replacements), strict=True
        )
    ]
    assert words[1] == {"figure ."}
    firsts = {first.removeprefix("The ").split(" ", 1)[0] for first in words[0]}
    assert firsts == {"house", "dwelling", "abode", "firm"}
    seconds = {first.removeprefix("The ").split(" ", 1)[1] for first in words[0]}
    assert seconds == {"see", "perceive", "cut through"}


@pytest.mark.parametrize(
    ("words", "rate", "replaced"),
    [(1, 0.3, 1), (4, 0.3, 2), (10, 0.3, 4), (40, 0.3, 10), (9, 1.0, 9)],
)
def test_nlpaug_rounds_the_share_of_all_tokens_up_to_at_most_ten(
    nlpaug, words, rate, replaced
):
    # With the full stop as a token: 0.3 x 5 is 1.5, so 2 are replaced.
    replacements = positives(nlpaug(" ".join(["big"] * words) + ".", rate=rate), 5)
    assert {positive.count("large") for positive in replacements} == {replaced}


def test_nlpaug_says_which_fields_it_does_not_use_and_what_is_missing(
    nlpaug, put, wordnet, tagger
):
    assert [
        "remove `senses`" in problem for problem in nlpaug("big", senses=2).check()
    ] == [True]
    careful = Synonyms(
        path=put("a.txt", "big\n"), lexicon=str(wordnet), tagger=str(tagger)
    )
    assert ["remove `tagger`" in problem for problem in careful.check()] == [True]
    assert {*nlpaug("big").files()} - {*careful.files()} == {
        tagger / name for name in TAGGER_FILES
    }
    (tagger / TAGGER_FILES[1]).write_text("{")
    with pytest.raises(DataError, match="tagger cannot be read"):
        nlpaug("big").open()
    (tagger / TAGGER_FILES[1]).unlink()
    assert ["it has no file" in problem for problem in nlpaug("big").check()] == [True]


def test_the_tagger_is_found_in_a_directory_of_nltk(nlpaug, tagger, monkeypatch):
    monkeypatch.setenv("NLTK_DATA", f"/nowhere{os.pathsep}{tagger.parent.parent}")
    assert find_tagger(None) == tagger
    named = nlpaug("The big house, soon!")
    assert (
        named.open().fingerprint == attrs.evolve(named, tagger=None).open().fingerprint
    )
    assert (
        named.open().fingerprint
        != attrs.evolve(named, rules="careful", tagger=None).open().fingerprint
    )


@pytest.mark.parametrize("below", ["nltk_data", "share/nltk_data", "lib/nltk_data"])
def test_the_tagger_is_found_where_nltk_looks(below, tmp_path, monkeypatch):
    monkeypatch.delenv("NLTK_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "environment"))
    directory = tmp_path / "environment" / below / "taggers" / TAGGER
    directory.mkdir(parents=True)
    for name in TAGGER_FILES:
        (directory / name).touch()
    assert find_tagger(None) == directory


@pytest.mark.parametrize("variable", ["WNSEARCHDIR", "WNHOME", None])
def test_the_lexicon_that_is_found_is_said_to_be_read(
    put, wordnet, monkeypatch, variable
):
    for name in ("WNSEARCHDIR", "WNHOME"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(
            variable, str(wordnet if variable == "WNSEARCHDIR" else wordnet.parent)
        )
    put("dict/README", "no part of the lexicon")
    source = Synonyms(
        path=put("a.txt", "big\n"), lexicon=None if variable else str(wordnet)
    )
    files = set(source.files())
    assert {file.parent for file in files} == {wordnet}
    assert {file.name for file in files} == {
        file.name for file in wordnet.iterdir()
    } - {"README"}
