from __future__ import annotations

from sentbed_common import InMemoryDataset
from sentbed_data.augmentation_base import Augmented
from sentbed_data.crop import Crop

ANCHORS = [f"text {i}" for i in range(5)]


def augmented(seed=0, identity="draw", anchors=ANCHORS):
    def draw(text, random):
        return f"{text} {random.random()}"

    return Augmented(
        InMemoryDataset({"anchor": anchors, "positive": anchors}), draw, seed, identity
    )


def test_a_row_depends_on_seed_epoch_and_row_alone():
    table = augmented()
    forwards = table.rows([0, 1, 2, 3, 4], 3)
    assert forwards["anchor"] == ANCHORS
    assert augmented().rows([4, 2, 4], epoch=3)["positive"] == [
        forwards["positive"][i] for i in (4, 2, 4)
    ]

    drawn = set()
    for seed in range(3):
        table = augmented(seed)
        for epoch in range(4):
            for text in table.rows(range(5), epoch)["positive"]:
                drawn.add(text.split()[-1])

    assert len(drawn) == 60


def test_the_fingerprint_covers_texts_seed_and_change():
    tables = [
        augmented(),
        augmented(1),
        augmented(identity="other"),
        augmented(anchors=ANCHORS[:4]),
    ]

    assert len({table.fingerprint for table in tables}) == 4
    assert augmented().fingerprint == augmented().fingerprint


def test_a_tokenizer_sees_the_anchors_and_the_positives_of_the_first_epoch():
    table = augmented()
    positives = table.rows(range(5))["positive"]
    assert list(table.texts()) == ANCHORS + positives
    assert list(table.texts(("anchor",))) == ANCHORS
    assert list(table.texts(("positive",))) == positives
    assert table.columns == ("anchor", "positive")
    assert len(table) == 5


def test_texts_that_stay_on_disk_are_changed_alike(put, tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    path = put("a.txt", "".join(f"{i} a b c d e f\n" for i in range(50)))
    in_memory, on_disk = (
        Crop(path=path, keep=0.5, stream=stream).open() for stream in (False, True)
    )

    assert in_memory.rows(range(50), 2) == on_disk.rows(range(50), 2)
