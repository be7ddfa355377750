from __future__ import annotations

from contextlib import closing

import pytest
from sentbed import RunError
from sentbed_corpus.text_store import TextStore


def test_texts_are_read_by_number_and_known_again_by_content(tmp_path):
    with closing(TextStore.create(tmp_path / "texts")) as store:
        store.add(["b", "a\nc", "", "ü\t"])
        store.add(["a\nc", "b", "new", ""])
        assert len(store) == 8
        assert store.read([7, 3, 0, 4]) == ["", "ü\t", "b", "a\nc"]
        first, places = store.distinct()
    assert first.tolist() == [0, 1, 2, 3, 6]
    assert places.tolist() == [0, 1, 2, 3, 1, 0, 4, 2]


def test_many_texts_are_distinct_in_the_order_in_which_they_came(
    tmp_path,
):
    texts = [f"text {i * i % 997}" for i in range(5000)]
    with closing(TextStore.create(tmp_path / "texts")) as store:
        store.add(texts)
        first, places = store.distinct()
        assert store.read(first.tolist()) == list(dict.fromkeys(texts))
        assert store.read(first[places].tolist()) == texts


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(RunError, match="cannot write"):
        TextStore.create(tmp_path / "nowhere" / "texts")
