from __future__ import annotations

import pytest
from sentbed_data.delete import Delete

WORDS = [f"w{i}" for i in range(10)]


def test_words_go_with_the_given_probability_and_the_rest_keeps_its_order(
    put,
):
    path = put("a.txt", " ".join(WORDS) + "\n")
    table = Delete(path=path, rate=0.3).open()
    gone = 0
    for epoch in range(400):
        kept = table.rows([0], epoch)["positive"][0].split(" ")
        assert kept == [word for word in WORDS if word in kept]
        gone += len(WORDS) - len(kept)
    # Binomial with 4000 trials: a standard deviation is 29.
    assert abs(gone - 1200) < 130


def test_one_word_stays_where_all_would_go(put):
    path = put("a.txt", "one two three\n")
    table = Delete(path=path, rate=0.999).open()
    positives = set()
    for epoch in range(60):
        positives.update(table.rows([0], epoch)["positive"])

    assert positives == {"one", "two", "three"}


def test_chinese_loses_characters(put):
    path = put("a.txt", "我看\n")
    table = Delete(path=path, rate=0.5).open()
    positives = set()
    for epoch in range(60):
        positives.update(table.rows([0], epoch)["positive"])

    assert positives == {"我", "看", "我看"}


def test_seed_and_rate_are_in_the_fingerprint(put):
    path = put("a.txt", "one two three\n")
    table = Delete(path=path).open()
    fingerprint = table.fingerprint
    assert Delete(path=path, seed=1).open().fingerprint != fingerprint
    assert Delete(path=path, rate=0.5).open().fingerprint != fingerprint


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.5, 1.5])
def test_a_rate_of_nothing_or_all_is_refused(rate):
    with pytest.raises(ValueError, match="rate"):
        Delete(path="a.txt", rate=rate)
