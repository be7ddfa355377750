from __future__ import annotations

import json
import time
import tracemalloc
import zipfile

import attrs
import numpy as np
import pytest
from sentbed import RunError
from sentbed.protocols import Items, Score
from sentbed.tools import from_plain, plain
from sentbed_report import score_items as items
from sentbed_report.report_json import read_record

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
    return [attrs.evolve(score, items=None) for score in scores]


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


def test_what_has_no_items_leaves_no_file(tmp_path):
    items.keep_items(tmp_path, without(score()))
    assert list(tmp_path.iterdir()) == []
    assert items.attach_items(tmp_path, without(score())) == (*without(score()),)


def test_names_that_are_no_file_names_are_stored_all_the_same(tmp_path):
    strange = score(encoder="../a b/" + "ü" * 300)
    items.keep_items(tmp_path, [strange])
    same(items.attach_items(tmp_path, without(strange))[0].items, PAIRS)


def test_arrays_that_scores_share_are_stored_once(tmp_path):
    gold = np.random.default_rng(0).random(5000)
    shared = [score(f"t{i}", Items("spearman", gold, -gold)) for i in range(10)]
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


@pytest.mark.parametrize(
    "values", [["a", "b", "c", "d"], [b"a", b"b", b"c", b"d"], [1j, 2j, 3j, 4j]]
)
def test_an_array_that_holds_no_numbers_is_a_damaged_file(tmp_path, values):
    items.keep_items(tmp_path, [score()])
    (file,) = (tmp_path / "items").iterdir()
    with np.load(file) as archive:
        arrays = dict(archive)
    (entry,) = json.loads(str(arrays["index"]))
    arrays[entry["y"]] = np.array(values)
    np.savez(file, **arrays)
    with pytest.raises(RunError) as caught:
        items.attach_items(tmp_path, without(score()))
    assert str(caught.value) == (
        f"the items in `{file}` cannot be read: the array `{entry['y']}` has the type "
        f"`{np.array(values).dtype}`, expected numbers; remove the file to continue without these items"
    )


def test_items_of_a_score_with_a_long_protocol_are_found(tmp_path):
    prompts = ["p" * 5000, "p" * 2500 + "q" + "p" * 2499]
    scores = [
        score(prompt=prompt, of=attrs.evolve(PAIRS, x=GOLD + n))
        for n, prompt in enumerate(prompts)
    ]
    items.keep_items(tmp_path, scores)
    file = tmp_path / "report.json"
    file.write_text(json.dumps(plain(without(*scores))))
    read = from_plain(read_record(file), list[Score])
    attached = items.attach_items(tmp_path, read)
    for restored, whole in zip(attached, scores, strict=True):
        same(restored.items, whole.items)


def kept_file(run):
    """Write the items of a run; return their file."""
    items.keep_items(run, [score()])
    (file,) = (run / "items").iterdir()
    return file


def npy(shape, descr="'<f8'"):
    """Return the header of an array file, whatever follows it."""
    header = (
        f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    )
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def add_array(file, content, times=1, compression=zipfile.ZIP_DEFLATED):
    """Add an array to a file of items: its beginning, followed by `times` blocks of a MiB of zeros."""
    with (
        zipfile.ZipFile(file, "a", compression, compresslevel=1) as archive,
        archive.open("zeros.npy", "w") as stream,
    ):
        stream.write(content)
        for _ in range(times):
            stream.write(bytes(1 << 20))


def refused(run):
    """Return why the items of a run are refused, which takes neither the time nor the memory to read them."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(RunError) as caught:
            items.attach_items(run, without(score()))
        assert time.process_time() - start < 2
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 64 << 20
    finally:
        tracemalloc.stop()
    return str(caught.value)


def test_the_files_of_a_run_are_limited_together(tmp_path, monkeypatch):
    file = kept_file(tmp_path)
    with np.load(file) as archive:
        total = sum(len(archive.zip.read(entry)) for entry in archive.zip.namelist())
    file.with_name("another.npz").write_bytes(file.read_bytes())
    monkeypatch.setattr(items, "LARGEST_ITEMS", 2 * total)
    same(items.attach_items(tmp_path, without(score()))[0].items, PAIRS)
    file.with_name("third.npz").write_bytes(file.read_bytes())
    assert "in all files of the run" in refused(tmp_path)


def test_declared_sizes_that_are_not_true_are_refused(tmp_path):
    # The header of the array says more than the archive: NumPy would take the memory.
    file = kept_file(tmp_path)
    add_array(file, npy(f"({1 << 33},)"))
    why = refused(tmp_path)
    assert why.startswith(
        f"the items in `{file}` cannot be read: the array `zeros` has the shape "
    )
    assert "(8589934592,)`, and 1,048,6" in why

    # The archive says less than it holds: what is beyond is not unpacked.
    file = kept_file(tmp_path)
    header = npy("(16,)")
    add_array(file, header, 64)
    declared_size = (len(header) + (64 << 20)).to_bytes(4, "little")
    assert file.read_bytes().count(declared_size) == 2
    file.write_bytes(
        file.read_bytes().replace(
            declared_size, (len(header) + 128).to_bytes(4, "little")
        )
    )
    assert "Bad CRC-32" in refused(tmp_path)

    # Both say more than there is.
    file = kept_file(tmp_path)
    header = npy(f"({100 << 17},)")
    add_array(file, header, 1)
    declared_size = (len(header) + (1 << 20)).to_bytes(4, "little")
    assert file.read_bytes().count(declared_size) == 2
    file.write_bytes(
        file.read_bytes().replace(
            declared_size, (len(header) + (100 << 20)).to_bytes(4, "little")
        )
    )
    with pytest.raises(RunError, match="cannot be read"):
        items.attach_items(tmp_path, without(score()))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (npy("(1,)", "'|O'"), "the type `object`, expected numbers"),
        (npy("(1,)", "'<U1'"), "the type `<U1`, expected numbers"),
        (npy("(-1, -131072)"), "cannot be read"),
        (npy("131072"), "cannot be read"),
        (b"no array", "cannot be read"),
        (b"", "cannot be read"),
    ],
)
def test_what_is_no_array_of_numbers_is_refused(tmp_path, content, reason):
    add_array(kept_file(tmp_path), content)
    assert reason in refused(tmp_path)
