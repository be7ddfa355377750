from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_data.wordnet import find_lexicon, open_lexicon


@pytest.mark.parametrize(
    ("word", "synonyms"),
    [
        ("house", ("dwelling", "abode")),  # counted 40 times as a noun, twice as a verb
        ("garden", ("kitchen plot",)),
        ("big", ("large",)),
        ("soon", ("shortly",)),
        ("number", ("figure",)),  # the ending of a comparative, but `numb` is rarer
        ("see", ("perceive",)),
        ("earth", ("globe",)),  # `Earth` is the same word
        ("saw", ()),  # more often the past of `see`
        ("houses", ()),
        ("seen", ()),
        ("can", ()),  # a function word
        ("zebra", ()),
    ],
)
def test_a_word_has_the_synonyms_of_its_most_frequent_sense(wordnet, word, synonyms):
    assert open_lexicon(str(wordnet), 1).synonyms(word) == synonyms


def test_a_word_is_compared_with_the_words_it_may_be_a_form_of_not_their_synonyms(
    wordnet,
):
    # `number` (50) may be a form of `numb` (2), which shares its sense with a frequent word.
    counts = wordnet / "cntlist.rev"
    text = counts.read_text()
    assert "unfeeling%3:01:00:: 1 1\n" in text
    counts.write_text(
        text.replace("unfeeling%3:01:00:: 1 1", "unfeeling%3:01:00:: 1 99")
    )
    assert open_lexicon(str(wordnet), 1).synonyms("number") == ("figure",)


def test_lemmas_of_a_part_of_speech_are_no_synonyms_of_a_token_with_a_slash(wordnet):
    lexicon = open_lexicon(str(wordnet), 1)
    assert lexicon.lemmas("garden", "n") == ("garden", "kitchen_plot")
    assert lexicon.synonyms("garden/n") == ()


def test_further_senses_of_the_same_part_of_speech_follow(wordnet):
    assert open_lexicon(str(wordnet), 2).synonyms("house") == (
        "dwelling",
        "abode",
        "firm",
    )
    assert open_lexicon(str(wordnet), 9).synonyms("house") == (
        "dwelling",
        "abode",
        "firm",
    )


def test_the_fingerprint_is_that_of_the_files(wordnet):
    before = open_lexicon(str(wordnet), 1).fingerprint
    assert open_lexicon(str(wordnet), 2).fingerprint == before
    (wordnet / "noun.exc").write_text("houses house\n")
    assert open_lexicon(str(wordnet), 1).fingerprint != before


def test_the_environment_names_the_lexicon(wordnet, tmp_path, monkeypatch):
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.setenv("WNHOME", str(tmp_path))
    assert find_lexicon(None) == tmp_path / "dict" == wordnet
    monkeypatch.setenv("WNSEARCHDIR", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere` does not exist"):
        find_lexicon(None)
    assert find_lexicon(str(wordnet)) == wordnet


def test_without_lexicon_the_error_says_how_to_get_one(
    monkeypatch,
):
    monkeypatch.delenv("WNSEARCHDIR", raising=False)
    monkeypatch.delenv("WNHOME", raising=False)
    monkeypatch.setattr("sentbed_data.wordnet._PLACES", ("/nonexistent/wordnet",))
    with pytest.raises(
        DataError,
        match=r"/nonexistent/wordnet.*apt-get install wordnet-base.*WNSEARCHDIR",
    ):
        find_lexicon(None)


def test_a_directory_that_lacks_a_file_is_refused(wordnet):
    (wordnet / "data.adv").unlink()
    with pytest.raises(DataError, match=r"no file `data\.adv`.*@ .*dict"):
        find_lexicon(str(wordnet))


def test_a_damaged_index_is_refused(wordnet):
    with (wordnet / "index.noun").open("a") as index:
        index.write("zoo n one\n")
    with pytest.raises(
        DataError, match=r"cannot be read: .*index\.noun, line 16.*@ .*dict"
    ):
        open_lexicon(str(wordnet), 1)


def test_a_damaged_entry_is_refused_when_it_is_looked_up(wordnet):
    path = wordnet / "data.adv"
    path.write_text(path.read_text().replace(" | ", " ? "))
    lexicon = open_lexicon(str(wordnet), 1)
    assert lexicon.synonyms("big") == ("large",)
    with pytest.raises(DataError, match=r"cannot be read: .*soon.*@ .*dict"):
        lexicon.synonyms("soon")


def test_the_real_wordnet_is_read():
    try:
        lexicon = open_lexicon(None, 1)
    except DataError as error:
        pytest.skip(f"needs WordNet: {error}")
    assert set(lexicon.synonyms("car")) == {"auto", "automobile", "machine", "motorcar"}
    assert "large" in lexicon.synonyms("big")
    assert "start" not in lexicon.synonyms("thought")
    for word in ("cars", "went", "found", "the", "it", "saw", "building"):
        assert lexicon.synonyms(word) == (), word
