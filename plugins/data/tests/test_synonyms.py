from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sentbed import DataError
from sentbed_data.synonyms import Synonyms
from sentbed_data.wordnet import find_lexicon

Put = Callable[[str, str], str]


def positives(source: Synonyms, epochs: int = 60) -> set[str]:
    table = source.open()
    return {table.rows([0], epoch)["positive"][0] for epoch in range(epochs)}


def test_all_replaceable_words_are_replaced_at_a_rate_of_one(put: Put, wordnet: Path) -> None:
    source = Synonyms(path=put("a.txt", "The big house, soon!\n"), rate=1.0, lexicon=str(wordnet))
    assert positives(source) == {"The large dwelling, shortly!", "The large abode, shortly!"}
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
def test_names_inflected_forms_and_parts_of_words_stay(put: Put, wordnet: Path, text: str) -> None:
    source = Synonyms(path=put("a.txt", text + "\n"), rate=1.0, senses=9, lexicon=str(wordnet))
    assert positives(source, 5) == {text}


@pytest.mark.parametrize(("rate", "replaced"), [(0.01, 1), (0.3, 3), (0.45, 5), (1.0, 10)])
def test_the_rate_is_the_share_of_replaceable_words(
    put: Put, wordnet: Path, rate: float, replaced: int
) -> None:
    text = "the " + " ".join(["big"] * 10)
    found = positives(Synonyms(path=put("a.txt", text + "\n"), rate=rate, lexicon=str(wordnet)))
    assert {positive.split().count("large") for positive in found} == {replaced}
    assert {len(positive.split()) for positive in found} == {11}
    places = {i for positive in found for i, word in enumerate(positive.split()) if word == "large"}
    assert places == set(range(1, 11))


def test_synonyms_of_several_words_are_set_with_blanks(put: Put, wordnet: Path) -> None:
    source = Synonyms(path=put("a.txt", "a garden.\n"), lexicon=str(wordnet))
    assert positives(source, 3) == {"a kitchen plot."}


def test_everything_that_decides_a_row_is_in_the_fingerprint(put: Put, wordnet: Path) -> None:
    path = put("a.txt", "the big house\n")
    fields = [{}, {"seed": 1}, {"rate": 0.5}, {"senses": 2}]
    found = {Synonyms(path=path, lexicon=str(wordnet), **given).open().fingerprint for given in fields}
    (wordnet / "noun.exc").write_text("houses house\n")
    found.add(Synonyms(path=path, lexicon=str(wordnet)).open().fingerprint)
    assert len(found) == 5


def test_seeds_choose_differently(put: Put, wordnet: Path) -> None:
    path = put("a.txt", "".join(f"big house {i} house house\n" for i in range(30)))
    one, other = (Synonyms(path=path, lexicon=str(wordnet), seed=seed).open() for seed in (0, 1))
    assert one.rows(range(30)) != other.rows(range(30))
    assert one.rows(range(30)) != one.rows(range(30), epoch=1)
    again = Synonyms(path=path, lexicon=str(wordnet)).open()
    assert one.rows(range(30)) == again.rows(range(30))


def test_a_missing_library_is_named_with_its_extra(
    put: Put, wordnet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Synonyms(path=put("a.txt", "big\n"), lexicon=str(wordnet))
    monkeypatch.setattr("sentbed_data.library_formats.importlib.util.find_spec", lambda name: None)
    assert ["sentbed-data[wordnet]" in problem for problem in source.check()] == [True]
    with pytest.raises(DataError, match=r"needs the package `nltk`.*pip install 'sentbed-data\[wordnet\]'"):
        source.open()


def test_a_missing_lexicon_is_found_by_check(put: Put, tmp_path: Path) -> None:
    source = Synonyms(path=put("a.txt", "big\n"), lexicon=str(tmp_path / "none"))
    assert [problem.endswith("does not exist; check the path") for problem in source.check()] == [True]


@pytest.mark.parametrize("field", [{"rate": 0.0}, {"rate": 1.1}, {"senses": 0}])
def test_parameters_out_of_range_are_refused(field: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(field))):
        Synonyms(path="a.txt", **field)


def test_most_sentences_of_a_novel_change(real: Callable[[str], str]) -> None:
    try:
        find_lexicon(None)
    except DataError as error:
        pytest.skip(f"needs WordNet: {error}")
    table = Synonyms(path=real("narrative/books/alice_in_wonderland.sent.txt")).open()
    assert len(table) == 1430
    rows = table.rows(range(1430))
    changed = sum(a != b for a, b in zip(rows["anchor"], rows["positive"], strict=True))
    assert changed > 1430 / 2


@pytest.mark.parametrize("variable", ["WNSEARCHDIR", "WNHOME", None])
def test_the_lexicon_that_is_found_is_said_to_be_read(
    put: Put, wordnet: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    for name in ("WNSEARCHDIR", "WNHOME"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, str(wordnet if variable == "WNSEARCHDIR" else wordnet.parent))
    put("dict/README", "no part of the lexicon")
    source = Synonyms(path=put("a.txt", "big\n"), lexicon=None if variable else str(wordnet))
    files = set(source.files())
    assert {file.parent for file in files} == {wordnet}
    assert {file.name for file in files} == {file.name for file in wordnet.iterdir()} - {"README"}
