from __future__ import annotations

import attrs
import numpy as np
import pytest
from sentbed import RunError
from sentbed.protocols import Items, Score
from sentbed_report import score_items as items

GOLD = np.arange(4.0)
PAIRS = Items("spearman", GOLD, np.array([0.1, 0.3, 0.2, 0.9]))


def score(
    task="STS12",
    of=PAIRS,
    encoder="en@start",
    **entries,
):
    protocol = {"encoder": {"max_length": 16}, "evaluator": {"id": "p", **entries}}
    return Score(task, "spearman", 80.0, protocol, encoder, "senteval-sts", of)


def same(actual, expected):
    assert actual is not None
    assert expected is not None
    for name, value in attrs.asdict(actual, recurse=False).items():
        np.testing.assert_array_equal(value, getattr(expected, name))


def without(*scores):
    bare = []
    for score in scores:
        bare.append(attrs.evolve(score, items=None))
    return bare


def test_scores_find_their_items_again(tmp_path):
    grouped = attrs.evolve(
        PAIRS, groups=np.array([0, 0, 1, 1]), weighted=True, scale=1.0
    )
    plain = Items("mean", np.array([1.0, 0.0]))
    scores = (score(), score("STS13", grouped), score("MR", None), score("TREC", plain))
    items.keep_items(tmp_path, scores)
    assert [path.name.rsplit("-", 1)[0] for path in (tmp_path / "items").iterdir()] == [
        "senteval-sts-en@start"
    ]
    back = items.attach_items(tmp_path, reversed(without(*scores)))
    assert [attached.task for attached in back] == ["TREC", "MR", "STS13", "STS12"]
    same(back[0].items, plain)
    assert back[1].items is None
    same(back[2].items, grouped)
    same(back[3].items, PAIRS)


@pytest.mark.parametrize(
    "other", [score("STS13"), score(encoder="en"), score(data="another")]
)
def test_another_scores_items_are_not_taken(tmp_path, other):
    items.keep_items(tmp_path, [score()])
    assert items.attach_items(tmp_path, without(other))[0].items is None


def test_a_protocol_is_recognised_after_its_way_through_json(tmp_path):
    items.keep_items(
        tmp_path,
        [score(columns=("a", "b"), threshold=np.float64(4), nothing=float("nan"))],
    )
    read = score(nothing=None, threshold=4.0, columns=["a", "b"])
    same(items.attach_items(tmp_path, without(read))[0].items, PAIRS)


def test_an_evaluation_that_is_repeated_takes_the_place_of_the_first(tmp_path):
    items.keep_items(tmp_path, [score()])
    changed = attrs.evolve(PAIRS, x=GOLD + 1)
    items.keep_items(tmp_path, [score(of=changed)])
    assert len(list((tmp_path / "items").iterdir())) == 1
    same(items.attach_items(tmp_path, without(score()))[0].items, changed)


def test_arrays_that_scores_share_are_stored_once(tmp_path):
    gold = np.random.default_rng(0).random(5000)
    shared = []
    for number in range(10):
        shared.append(score(f"t{number}", Items("spearman", gold, -gold)))
    items.keep_items(tmp_path, shared)
    (file,) = (tmp_path / "items").iterdir()
    assert file.stat().st_size < 2 * 5000 * 8 + 20_000


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04broken", b"no archive"])
def test_a_damaged_file_is_named(tmp_path, content):
    items.keep_items(tmp_path, [score()])
    (file,) = (tmp_path / "items").iterdir()
    file.write_bytes(content)
    with pytest.raises(
        RunError, match=r"the items in `.*\.npz` cannot be read: .*; remove the file"
    ):
        items.attach_items(tmp_path, without(score()))
