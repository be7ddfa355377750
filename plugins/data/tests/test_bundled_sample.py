from __future__ import annotations

import pytest
from sentbed_data.bundled_sample import Sample


def test_triplets_are_the_default():
    table = Sample().open()
    assert Sample().columns == table.columns == ("anchor", "positive", "negative")
    assert len(table) == 600
    assert list(Sample().check()) == []


def test_pairs_are_the_triplets_without_the_negative():
    triplets, table = Sample().open(), Sample(kind="pairs").open()
    assert Sample(kind="pairs").columns == table.columns == ("anchor", "positive")
    assert table.rows(range(600)) == {
        c: triplets.rows(range(600))[c] for c in ("anchor", "positive")
    }


def test_sentences_are_those_of_the_triplets_once_each():
    table = Sample(kind="sentences").open()
    assert Sample(kind="sentences").columns == table.columns == ("anchor", "positive")
    assert table.data["anchor"] == table.data["positive"]
    assert len(set(table.texts())) == len(table)
    assert set(table.texts()) == set(Sample().open().texts())


@pytest.mark.parametrize("kind", ["triplets", "pairs", "sentences"])
def test_limit_gives_the_first_rows(kind):
    source = Sample(kind=kind, limit=7)
    assert len(source.open()) == 7
    assert source.open().rows(range(7)) == Sample(kind=kind).open().rows(range(7))
