from __future__ import annotations

import pytest
from sentbed_data.crop import Crop


def positives(source, epochs):
    table = source.open()
    texts = set()
    for epoch in range(epochs):
        texts.update(table.rows([0], epoch)["positive"])

    return texts


def test_every_run_of_the_kept_length_can_be_the_positive(put):
    path = put("a.txt", "one two, three  four\n")
    half = Crop(path=path, keep=0.5)
    assert positives(half, 60) == {
        "one two,",
        "two, three",
        "three  four",
    }

    most = Crop(path=path, keep=0.75)
    assert positives(most, 60) == {
        "one two, three",
        "two, three  four",
    }


def test_the_kept_share_is_rounded_and_never_nothing(put):
    path = put("a.txt", "one two three\n")
    half = Crop(path=path, keep=0.5)
    assert positives(half, 60) == {"one two", "two three"}

    least = Crop(path=path, keep=0.01)
    assert positives(least, 60) == {"one", "two", "three"}

    default = Crop(path=path)
    assert positives(default, 5) == {"one two three"}


def test_chinese_is_cut_between_characters(put):
    half = Crop(path=put("a.txt", "我看书。\n"), keep=0.5)
    assert positives(half, 60) == {
        "我看",
        "看书",
        "书。",
    }


def test_seed_and_share_are_in_the_fingerprint(put):
    path = put("a.txt", "one two three\n")
    table = Crop(path=path).open()
    fingerprint = table.fingerprint
    assert Crop(path=path, seed=1).open().fingerprint != fingerprint
    assert Crop(path=path, keep=0.5).open().fingerprint != fingerprint
    # The file has one line.
    assert Crop(path=path, limit=1).open().fingerprint == fingerprint


@pytest.mark.parametrize("keep", [0.0, 1.0, -0.5, 1.5])
def test_a_share_of_nothing_or_all_is_refused(keep):
    with pytest.raises(ValueError, match="keep"):
        Crop(path="a.txt", keep=keep)
