from __future__ import annotations

import pytest
from sentbed_data.bundled_sample import Sample

KINDS = {
    "triplets": ("anchor", "positive", "negative"),
    "pairs": ("anchor", "positive"),
    "sentences": ("anchor", "positive"),
}
"""Kind -> columns."""


@pytest.fixture
def triplets():
    return Sample().open()


@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_are_those_of_the_kind(kind):
    source = Sample(kind=kind)

    assert source.columns == KINDS[kind]
    assert source.open().columns == KINDS[kind]


def test_triplets_are_the_default(triplets):
    assert triplets.columns == KINDS["triplets"]
    assert len(triplets) == 600
    assert list(Sample().check()) == []


def test_pairs_are_the_triplets_without_the_negative(triplets):
    pairs = Sample(kind="pairs").open()

    expected = triplets.rows(range(600))
    del expected["negative"]
    assert pairs.rows(range(600)) == expected


def test_sentences_are_those_of_the_triplets_once_each(triplets):
    sentences = Sample(kind="sentences").open()

    assert sentences.data["anchor"] == sentences.data["positive"]
    assert len(set(sentences.texts())) == len(sentences)
    assert set(sentences.texts()) == set(triplets.texts())


@pytest.mark.parametrize("kind", KINDS)
def test_limit_gives_the_first_rows(kind):
    whole = Sample(kind=kind).open()
    part = Sample(kind=kind, limit=7).open()

    assert len(part) == 7
    assert part.rows(range(7)) == whole.rows(range(7))
