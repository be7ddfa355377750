from __future__ import annotations

import codecs
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import toy_plugin
from pyarrow import parquet
from sentbed import (
    DataError,
    Encoder,
    ModelError,
    RunError,
    RuntimeUnavailableError,
)
from sentbed_corpus import (
    Request,
    encode_corpus,
    open_vectors,
)
from sentbed_corpus.input_files import find_files
from sentbed_corpus.input_rows import read_shard
from sentbed_corpus.input_shards import cut
from sentbed_jobs.local_pool import LocalPool

TEXTS = ["one", "two and three", "", "é ☃", "one", "a longer text with more words", "x"]


@pytest.fixture
def request_of(encoder, tmp_path):
    def make(*inputs, **fields):
        fields = {
            "output": tmp_path / "out",
            "runtime": {"use": "toy"},
            "shard_rows": 3,
        } | fields
        return Request(str(tmp_path / "encoder"), tuple(map(str, inputs)), **fields)

    return make


@pytest.fixture
def encoded(request_of, put):
    """Return the request of a corpus with the rows a, b, ..., which has been encoded."""

    def encode(rows=1):
        request = request_of(put("in.txt", "\n".join("abcdefgh"[:rows])))
        encode_corpus(request)
        return request

    return encode


def jsonl(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def table(path, columns, group=4):
    parquet.write_table(pa.table(columns), path, row_group_size=group)
    return path


# --- inputs ------------------------------------------------------------------------------------------------


def test_files_come_in_the_order_named_and_within_a_directory_by_name(put, tmp_path):
    for name in (
        "d/b.txt",
        "d/a.jsonl",
        "d/sub/c.parquet",
        "d/notes.md",
        "d/.hidden.txt",
        "d/out/x.parquet",
        "z.txt",
    ):
        put(name, "x")
    names = ["z.txt", "d"]
    files = find_files([str(tmp_path / name) for name in names], tmp_path / "d" / "out")
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        "z.txt",
        "d/a.jsonl",
        "d/b.txt",
        "d/sub/c.parquet",
    ]


def test_a_pattern_takes_what_fits_it(put, tmp_path, monkeypatch):
    for name in ("p-2.txt", "p-10.txt", "q.txt", "deep/er/p-3.txt", "[1].txt"):
        put(name, "x")
    monkeypatch.chdir(tmp_path)

    def names(*patterns):
        return [
            file.relative_to(tmp_path).as_posix()
            for file in find_files(patterns, tmp_path / "out")
        ]

    assert names("p-*.txt") == ["p-10.txt", "p-2.txt"]
    assert names("**/p-*.txt") == ["deep/er/p-3.txt", "p-10.txt", "p-2.txt"]
    # A file of that very name is meant.
    assert names("[1].txt") == ["[1].txt"]


def test_the_output_itself_is_no_input(put, tmp_path):
    pairs = put("d/a.jsonl", "x")
    mined = put("d/mined.jsonl", "x")
    assert find_files([str(tmp_path / "d")], mined) == [pairs]


def test_a_link_has_its_own_ending_and_its_target_is_read_once(put, tmp_path):
    """In the cache of the hub, a file is a link to one that is named by its hash."""
    blob = put("blobs/1f3a", jsonl([{"text": "one"}]))
    link = tmp_path / "snapshot" / "a.jsonl"
    link.parent.mkdir()
    link.symlink_to(blob)
    (file,) = find_files([str(link.parent)], tmp_path / "out")
    _, (shard,) = cut(file, 10)
    assert read_shard(shard, "text", ())[0] == ["one"]

    (tmp_path / "snapshot" / "b.jsonl").symlink_to(blob)
    with pytest.raises(DataError, match="the file is named twice"):
        find_files([str(link.parent)], tmp_path / "out")


@pytest.mark.parametrize("ending", ["txt", "jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_text(ending, put):
    content = "one\n\ufefftwo"
    if ending == "jsonl":
        content = jsonl([{"text": "one"}, {"text": "\ufefftwo"}])
    file = put(f"a.{ending}", codecs.BOM_UTF8 + content.encode())
    _, shards = cut(file, 1)
    texts = [read_shard(shard, "text", ())[0] for shard in shards]
    assert texts == [["one"], ["\ufefftwo"]]


def test_a_file_in_the_directory_of_the_output_is_refused_with_the_reason(
    put, tmp_path
):
    put("out/a.txt", "x")
    with pytest.raises(
        DataError, match=r"^the file is the output, or in its directory; check the path"
    ):
        find_files([str(tmp_path / "out" / "a.txt")], tmp_path / "out")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            ["none.txt"],
            "cannot read the file: No such file or directory; check the path @ .*none.txt",
        ),
        (["none-*.txt"], r"no file fits the pattern; check the path @ none-\*.txt"),
        (
            ["empty"],
            r"the directory has no file that ends in `.txt`, .*; check the path @ empty",
        ),
        (["a.txt", "*.txt"], "the file is named twice, .* @ .*a.txt"),
        (
            ["a.doc"],
            r"the file's ending does not say how to read it; expected one of `.txt`, .* @ .*a.doc",
        ),
    ],
)
def test_inputs_that_cannot_be_taken_are_named(
    inputs,
    message,
    request_of,
    put,
    tmp_path,
    monkeypatch,
):
    put("a.txt", "x")
    put("a.doc", "x")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"^{message}$"):
        encode_corpus(request_of(*inputs))
    assert not (tmp_path / "out").exists()


CONTENTS = [
    b"a\nb\nc\nd\ne\nf\ng",
    b"a\nb\nc\nd\ne\nf\n",
    b"a\r\nb\r\nc\r\n\r\ne\r\n",
    b"\n",
    b"\n\n\n\n",
    "a\x85b\nc\u2028d\x0b\x0c\x1c\ne\rf\n".encode(),
    b"",
    "é\n☃☃\n\n𝄞".encode(),
    b"x" * 5000 + b"\n" + b"y" * 100_000 + b"\nz",
]


@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
@pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
def test_no_line_is_lost_or_cut_at_the_seams(content, ending, put):
    path = put(
        f"in{ending}", gzip.compress(content) if ending.endswith(".gz") else content
    )
    expected = [line.rstrip(b"\r") for line in content.split(b"\n")]
    if not expected[-1]:
        expected.pop()
    for rows in (1, 2, 3, 6, 7, 100):
        source, shards = cut(path, rows)
        pieces = [read_shard(shard, "text", ())[0] for shard in shards]
        assert [len(piece) for piece in pieces] == [shard.rows for shard in shards], (
            rows
        )
        assert all(len(piece) == rows for piece in pieces[:-1]), rows
        assert [text.encode() for piece in pieces for text in piece] == expected, rows
        assert source.rows == len(expected), rows


# One row a group, fewer rows a shard than a group has, as many, more, and seams that fall into groups.
@pytest.mark.parametrize(
    ("group", "rows"),
    [(1, 3), (4, 1), (4, 3), (4, 4), (4, 5), (4, 8), (100, 3), (100, 100)],
)
def test_shards_of_parquet_are_rows_whatever_the_row_groups(rows, group, tmp_path):
    texts = [f"text {i}" for i in range(11)]
    path = table(tmp_path / "in.parquet", {"n": range(11), "text": texts}, group)
    source, shards = cut(path, rows)
    pieces = [read_shard(shard, "text", ("n",)) for shard in shards]
    assert [text for piece, _ in pieces for text in piece] == texts
    assert [n for _, kept in pieces for n in kept["n"].to_pylist()] == list(range(11))
    assert [len(piece) for piece, _ in pieces] == [shard.rows for shard in shards]
    assert source.rows == 11


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_every_kind_of_string_column_is_read(kind, tmp_path):
    path = table(tmp_path / "in.parquet", {"text": pa.array(TEXTS).cast(kind)})
    assert [read_shard(shard, "text", ())[0] for shard in cut(path, 4)[1]] == [
        TEXTS[:4],
        TEXTS[4:],
    ]


# --- vectors -----------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(put, tmp_path):
    """`TEXTS` once in each format."""
    return [
        put("a.txt", "\n".join(TEXTS)),
        put("b.jsonl", jsonl({"id": i, "text": text} for i, text in enumerate(TEXTS))),
        put(
            "c.jsonl.gz",
            gzip.compress(jsonl({"text": text} for text in TEXTS).encode()),
        ),
        table(tmp_path / "d.parquet", {"text": TEXTS}),
        put("e.txt", ""),
    ]


def test_every_row_has_its_vector_in_the_order_of_the_input(
    mixed, encoder, request_of, tmp_path
):
    done = encode_corpus(request_of(*mixed))
    assert (done.rows, done.width, done.shards, done.encoded) == (28, 4, 12, 28)
    vectors = open_vectors(tmp_path / "out")
    assert (vectors.shape, len(vectors), vectors.dtype) == ((28, 4), 28, np.float32)
    np.testing.assert_allclose(
        np.asarray(vectors), encoder.encode(TEXTS * 4), rtol=1e-6
    )


@pytest.fixture(scope="module")
def vectors_of(encoder_once, toy_site, tmp_path_factory):
    """Vectors of 20 texts in shards of three, and the same in one array."""
    directory = tmp_path_factory.mktemp("vectors")
    texts = directory / "in.txt"
    texts.write_text("\n".join(f"t{letter}" for letter in "abcdefghijklmnopqrst"))
    out = directory / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(toy_site))
        encode_corpus(
            Request(
                str(encoder_once[1]),
                (str(texts),),
                out,
                {"use": "toy"},
                shard_rows=3,
            )
        )
    files = sorted((out / "vectors").iterdir())
    assert len(files) == 7
    return open_vectors(out), np.concatenate([np.load(file) for file in files])


CHOICES = [
    *[0, 19, -1, -20, np.int64(5)],
    *[
        slice(None),
        slice(2, 4),
        slice(1, 17),
        slice(-4, None),
        slice(5, 2),
        slice(18, 0, -5),
    ],
    *[[3, 3, 0, -1, 12], [], np.array([[1, 2], [18, 4]]), np.arange(20) % 3 == 0],
]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("key", CHOICES, ids=str)
def test_vectors_are_chosen_as_rows_of_an_array_are(key, vectors_of):
    vectors, whole = vectors_of
    actual, expected = (
        vectors[key],
        whole[key] if not isinstance(key, list) or key else whole[:0],
    )
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("key", [20, -21, [0, 20]])
def test_a_row_that_is_not_there_is_an_index_error(key, vectors_of):
    with pytest.raises(IndexError):
        vectors_of[0][key]


def test_rows_are_read_within_a_shard_and_across(vectors_of):
    vectors, whole = vectors_of
    for start in range(20):
        np.testing.assert_array_equal(
            vectors.rows(start, start + 5), whole[start : start + 5]
        )


def test_float16_halves_the_vectors(request_of, put, encoder, tmp_path):
    encode_corpus(request_of(put("in.txt", "\n".join(TEXTS)), dtype="float16"))
    vectors = open_vectors(tmp_path / "out")
    assert vectors.dtype == np.float16
    np.testing.assert_array_equal(vectors[:], encoder.encode(TEXTS).astype(np.float16))


def test_parquet_has_the_vectors_beside_the_columns_that_are_kept(
    request_of, put, encoder, tmp_path
):
    rows = [
        {"id": f"n{i}", "tags": [i, i], "text": text} for i, text in enumerate(TEXTS)
    ]
    source = put("in.jsonl", jsonl(rows))
    other = table(
        tmp_path / "more.parquet", {key: [row[key] for row in rows] for key in rows[0]}
    )
    encode_corpus(
        request_of(source, other, format="parquet", keep=("id", "tags", "text"))
    )
    vectors = parquet.read_table(tmp_path / "out" / "vectors")
    assert vectors.schema.field("vector").type == pa.list_(pa.float32(), 4)
    assert vectors.select(["id", "tags", "text"]).to_pylist() == rows * 2
    np.testing.assert_allclose(
        vectors["vector"].to_pylist(), encoder.encode(TEXTS * 2), rtol=1e-6
    )
    with pytest.raises(
        DataError,
        match=r"the vectors are in Parquet files; read `.*vectors` with pyarrow",
    ):
        open_vectors(tmp_path / "out")


def test_the_manifest_says_what_the_vectors_are_of(mixed, request_of, tmp_path):
    encode_corpus(request_of(*mixed[:2]))
    manifest = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert manifest["request"]["plugins"] == dict.fromkeys(
        ("backbone", "pooler", "runtime"), "toy 1.0"
    )
    assert (manifest["rows"], manifest["complete"], len(manifest["shards"])) == (
        14,
        True,
        6,
    )
    assert [Path(entry["path"]).name for entry in manifest["inputs"]] == [
        "a.txt",
        "b.jsonl",
    ]
    assert manifest["how"]["width"] == 4
    assert manifest["how"]["precision"] == "fp64"
    assert manifest["request"]["runtime"] == {"use": "toy"}


# --- going on ----------------------------------------------------------------------------------------------


def parts(directory):
    return {
        file.name: (file.stat().st_mtime_ns, file.read_bytes())
        for file in (directory / "vectors").iterdir()
    }


def contents(directory):
    return {name: content for name, (_, content) in parts(directory).items()}


def again(request, **options):
    messages = []
    return encode_corpus(request, say=messages.append, **options), messages


def test_what_is_there_is_not_encoded_again(mixed, request_of, tmp_path):
    request = request_of(*mixed)
    encode_corpus(request)
    before = parts(tmp_path / "out")
    done, messages = again(request)
    assert (done.encoded, done.rows, messages) == (
        0,
        28,
        ["12 of 12 shards are there; none to encode"],
    )
    assert parts(tmp_path / "out") == before


def test_a_shard_that_is_missing_or_damaged_is_encoded_again(
    mixed, request_of, tmp_path
):
    request = request_of(*mixed)
    encode_corpus(request)
    before, expected = parts(tmp_path / "out"), contents(tmp_path / "out")
    (tmp_path / "out" / "vectors" / "part-0000003.npy").unlink()
    damaged = tmp_path / "out" / "vectors" / "part-0000007.npy"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    done, messages = again(request)
    assert (done.encoded, messages) == (6, ["10 of 12 shards are there; 2 to encode"])
    after = parts(tmp_path / "out")
    assert contents(tmp_path / "out") == expected
    changed = [name for name in sorted(after) if after[name] != before[name]]
    assert changed == ["part-0000003.npy", "part-0000007.npy"]


def test_a_second_command_in_the_same_directory_is_refused_and_disturbs_nothing(
    put, request_of, tmp_path
):
    request = request_of(put("in.txt", "a\nb\nc\nd\ne\n"))
    refused = []

    @contextmanager
    def bar(rows):
        left = tmp_path / "out" / "vectors" / ".part-0000001.npy.abcdefgh"
        left.parent.mkdir()
        left.touch()  # what a worker of the first command is writing
        for overwrite in (False, True):
            with pytest.raises(
                RunError, match="another process is at work on"
            ) as caught:
                encode_corpus(request, overwrite=overwrite)
            refused.append(str(caught.value))
        assert left.exists()
        yield lambda _: None

    assert encode_corpus(request, bar=bar).encoded == 5
    assert len(refused) == 2
    assert len(open_vectors(tmp_path / "out")[:]) == 5


def test_bad_rows_are_found_before_anything_is_encoded(
    put, request_of, encoder, tmp_path
):
    source = put("in.txt", b"a\nb\nc\nd\ne\nf\ng\nh\xff\n")
    with pytest.raises(
        DataError,
        match=rf"byte 0xff \(number . of the line\) is not utf-8; .* @ {source}:8$",
    ):
        encode_corpus(request_of(source))
    assert not (tmp_path / "out").exists()


def test_an_error_leaves_the_shards_before_it_and_the_rest_is_done_later(
    put,
    request_of,
    encoder,
    tmp_path,
    monkeypatch,
):
    source = put("in.txt", "a\nb\nc\nd\ne\nf\ng\nh\n")
    real = Encoder.encode

    def fail(self, texts, progress=None):
        if "g" in texts:
            raise KeyboardInterrupt
        return real(self, texts, progress)

    monkeypatch.setattr(Encoder, "encode", fail)
    with pytest.raises(KeyboardInterrupt) as caught:
        encode_corpus(request_of(source))
    monkeypatch.setattr(Encoder, "encode", real)
    assert caught.value.__notes__ == [
        "2 of 3 shards are finished and stay; the same command does the rest"
    ]
    assert sorted(parts(tmp_path / "out")) == ["part-0000000.npy", "part-0000001.npy"]
    with pytest.raises(
        DataError, match="are not complete; start the same command again"
    ):
        open_vectors(tmp_path / "out")
    done, messages = again(request_of(source))
    assert (done.encoded, messages) == (2, ["2 of 3 shards are there; 1 to encode"])
    np.testing.assert_allclose(
        open_vectors(tmp_path / "out")[:], encoder.encode(list("abcdefgh")), rtol=1e-6
    )


def test_an_input_that_has_changed_is_refused(put, request_of, tmp_path):
    source = put("in.txt", "a\nb\n")
    encode_corpus(request_of(source))
    put("in.txt", "a\nc\n")
    with pytest.raises(
        RunError,
        match=f"has vectors of another request: `{source}` has changed; choose another",
    ):
        encode_corpus(request_of(source))
    assert again(request_of(source), overwrite=True)[0].encoded == 2


def test_shards_of_which_nobody_knows_how_they_were_made_are_encoded_again(
    encoded, tmp_path
):
    request = encoded()
    file = tmp_path / "out" / "corpus.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"how": None, "complete": False}))
    assert again(request)[0].encoded == 1
    assert len(open_vectors(tmp_path / "out")) == 1


def test_a_copy_of_the_same_files_elsewhere_is_the_same_corpus(
    put, request_of, tmp_path
):
    encode_corpus(request_of(put("a/in.txt", "\n".join(TEXTS))))
    moved = put("b/in.txt", "\n".join(TEXTS))
    assert again(request_of(moved))[0].encoded == 0


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shard_rows": 2}, "`shard_rows` was 3 and is 2"),
        ({"dtype": "float16"}, "`dtype` was 'float32' and is 'float16'"),
        (
            {"runtime": {"use": "toy", "precision": "fp64"}},
            "`runtime` was .* and is .*'fp64'",
        ),
        ({"column": "other"}, "`column` was 'text' and is 'other'"),
    ],
)
def test_another_request_is_refused_with_what_differs(
    change,
    message,
    put,
    request_of,
    tmp_path,
):
    source = put("in.jsonl", jsonl({"text": text, "other": text} for text in TEXTS))
    encode_corpus(request_of(source))
    before = parts(tmp_path / "out")
    with pytest.raises(RunError, match=message):
        encode_corpus(request_of(source, **change))
    assert parts(tmp_path / "out") == before
    assert again(request_of(source, **change), overwrite=True)[0].encoded == 7


def test_other_inputs_are_refused_with_their_names(put, request_of):
    first, second, third = (
        put(name, f"{name}\n") for name in ("a.txt", "b.txt", "c.txt")
    )
    encode_corpus(request_of(first, second))
    with pytest.raises(RunError, match="the inputs are in another order"):
        encode_corpus(request_of(second, first))
    with pytest.raises(
        RunError, match=f"`{second}` is no longer among the inputs; `{third}` is new"
    ):
        encode_corpus(request_of(first, third))


def test_the_same_bytes_in_another_format_are_other_inputs(put, request_of):
    lines = put("in.txt", jsonl([{"text": "a"}]))
    encode_corpus(request_of(lines))
    renamed = lines.rename(lines.with_suffix(".jsonl"))
    with pytest.raises(
        RunError, match=f"`{renamed}` is new; `{lines}` is no longer among the inputs"
    ):
        encode_corpus(request_of(renamed))


def test_another_encoder_is_refused(encoded, encoder, tmp_path):
    request = encoded()
    np.save(
        tmp_path / "encoder" / "backbone" / "embedding.npy",
        encoder.backbone.embedding + 1,
    )
    with pytest.raises(RunError, match="the encoder has other files"):
        encode_corpus(request)


def test_a_corpus_does_not_go_on_with_another_release_of_a_plugin(
    encoded, installed_toy
):
    request = encoded()
    metadata = installed_toy / "toy-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    with pytest.raises(
        RunError,
        match=r"`plugins` was .*'pooler': 'toy 1.0'.* and is .*'pooler': 'toy 1.1'",
    ):
        encode_corpus(request)


def test_an_encoder_that_computes_otherwise_than_before_is_refused(
    encoded, tmp_path, monkeypatch
):
    request = encoded(rows=4)
    (tmp_path / "out" / "vectors" / "part-0000001.npy").unlink()
    # As `auto` on a machine with other instructions.
    monkeypatch.setattr(
        toy_plugin.Engine,
        "describe",
        lambda self: {"device": "toy", "precision": "bf16", "token_budget": 64},
    )
    with pytest.raises(
        RunError,
        match=r"rows 4 to 4 of .*: the encoder reports `precision` 'bf16', before 'fp64'",
    ):
        encode_corpus(request)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_with_anything_else_in_it_is_left_alone(
    overwrite, put, request_of, tmp_path
):
    source = put("in.txt", "a\n")
    put("out/vectors/mine.txt", "dear")
    with pytest.raises(
        RunError,
        match="has other files than the vectors of a corpus; choose another place",
    ):
        encode_corpus(request_of(source), overwrite=overwrite)
    assert (tmp_path / "out" / "vectors" / "mine.txt").read_text() == "dear"
    with pytest.raises(RunError, match="choose another place"):
        encode_corpus(request_of(source, output=source), overwrite=overwrite)
    assert source.read_text() == "a\n"


@pytest.mark.parametrize("content", ['{"schema": 1, "inp'])
def test_a_damaged_manifest_is_an_error_that_overwriting_mends(
    content, encoded, tmp_path
):
    request = encoded()
    (tmp_path / "out" / "corpus.json").write_text(content)
    with pytest.raises(
        RunError, match=r"corpus.json` is damaged .*; start again with `--overwrite`"
    ):
        encode_corpus(request)
    assert again(request, overwrite=True)[0].encoded == 1


# --- bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (jsonl([{"txt": "a"}]), r"there is no column `text`; found `txt`. Did you mean `txt`\? @ PATH:1"),
        (jsonl([{"text": "a"}] * 4 + [{"id": 1}]), r"there is no column `text`; found `id`..* @ PATH:5"),
        ('{"text": "a"}\n{"text": \n', r"the line is not valid JSON \(.*\); expected one object .* @ PATH:2"),
        ('{"text": "a"}\n\n', r"the line is not valid JSON .* @ PATH:2"),
        ("[1]\n", "the line holds a JSON list; expected an object @ PATH:1"),
        (jsonl([{"text": "a"}, {"text": None}]), "`text` is null, expected a text; .* @ PATH:2"),
        (jsonl([{"text": 5}]), "`text` is 5, expected a text; .* @ PATH:1"),
        (b'{"text": "caf\xe9"}\n', "byte 0xe9 .* is not utf-8; .* @ PATH:1"),
        ("", "the input is empty, expected one text per row @ PATH"),
    ],
)  # fmt: skip
def test_a_fault_in_json_lines_is_an_error_with_its_line(
    content, message, put, request_of
):
    source = put("in.jsonl", content)
    with pytest.raises(DataError, match=f"^{message.replace('PATH', str(source))}$"):
        encode_corpus(request_of(source))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"txt": ["a"]},
            r"there is no column `text`; found `txt`. Did you mean `txt`\? @ PATH",
        ),
        ({"text": [1, 2]}, "the column `text` holds int64, expected strings @ PATH"),
        (
            {"text": ["a", "b", "c", "d", None]},
            "`text` is null in row 5, expected a text; .* @ PATH",
        ),
        ({"text": pa.array([], pa.string())}, "the input is empty, .* @ PATH"),
    ],
    ids=range(4),
)
def test_a_fault_in_parquet_is_an_error_with_its_row(
    columns, message, request_of, tmp_path
):
    source = table(tmp_path / "in.parquet", columns)
    with pytest.raises(DataError, match=f"^{message.replace('PATH', str(source))}$"):
        encode_corpus(request_of(source))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.parquet", b"no parquet at all", "the file cannot be read as Parquet: .*; write it again"),
        ("in.txt.gz", gzip.compress(b"a\n" * 999, mtime=0)[:-9], "the file is damaged .*; get it again"),
        ("in.txt.gz", b"no gzip", "the file is damaged or cut short .*; get it again"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_what_it_says_is_an_error(
    name, content, message, put, request_of
):
    source = put(name, content)
    with pytest.raises(DataError, match=f"^{message} @ {source}$"):
        encode_corpus(request_of(source))


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("in.jsonl", {"keep": ("id",), "format": "npy"}, "`.npy` files hold vectors only; keep columns with"),
        ("in.jsonl", {"keep": ("vector",)}, "`vector` is the column of the vectors; "),
        ("in.jsonl", {"keep": ("it",)}, r"there is no column `it`; found `id`, `text`. .*:1$"),
        ("in.jsonl", {"keep": ("id",)}, r"rows 1 to 2 of .*: a column cannot be kept: .*; give its values one"),
        ("in.txt", {"keep": ("id",)}, "a text file has no columns to keep; leave out `--keep`"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_kept_are_an_error(
    name, fields, message, put, request_of
):
    source = put(name, jsonl([{"id": 1, "text": "a"}, {"id": "b", "text": "b"}]))
    with pytest.raises(DataError, match=f"^{message}"):
        encode_corpus(request_of(source, **{"format": "parquet", **fields}))


@pytest.mark.parametrize(("value", "dtype", "message"), [
    (np.nan, "float32", "the vectors have NaN or infinite values; look at the encoder's weights"),
    (1e5, "float16", "a vector has the value 100000, more than float16 holds; use float32"),
])  # fmt: skip
def test_vectors_that_are_no_numbers_are_not_written(
    value,
    dtype,
    message,
    put,
    request_of,
    encoder,
    tmp_path,
):
    embedding = np.full_like(encoder.backbone.embedding, value)
    np.save(tmp_path / "encoder" / "backbone" / "embedding.npy", embedding)
    source = put("in.txt", "a\nb\n")
    with pytest.raises(RunError, match=f"^rows 1 to 2 of {source}: {message}"):
        encode_corpus(request_of(source, dtype=dtype))
    assert list((tmp_path / "out").glob("vectors/*")) == []


@pytest.mark.parametrize("format", ["npy", "parquet"])
def test_a_full_disk_is_an_error_that_leaves_no_half_shard(
    format, put, request_of, tmp_path
):
    request = request_of(
        put("in.txt", "\n".join("ab" * 2000)), format=format, shard_rows=4000
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(
            RunError,
            match=r"cannot write `.*part-0000000.*File too large.*free some space",
        ):
            encode_corpus(request)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "out" / "vectors").iterdir()) == []
    assert encode_corpus(request).rows == 4000


def test_a_directory_that_is_no_encoder_is_an_error(put, installed_toy, tmp_path):
    with pytest.raises(ModelError, match="is not an encoder"):
        encode_corpus(
            Request(
                str(tmp_path),
                (str(put("in.txt", "a\n")),),
                tmp_path / "out",
                {"use": "toy"},
            )
        )


def test_parquet_without_pyarrow_says_how_to_get_it(put, request_of, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for request in (
        request_of(put("in.parquet", "")),
        request_of(put("in.txt", "a\n"), format="parquet"),
    ):
        with pytest.raises(
            RuntimeUnavailableError,
            match=r"run `pip install 'sentbed-corpus\[parquet\]'`",
        ):
            encode_corpus(request)


# --- workers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_write_what_one_writes(mixed, request_of, tmp_path):
    encode_corpus(request_of(*mixed))
    encode_corpus(request_of(*mixed, output=tmp_path / "two"), LocalPool(2))
    assert contents(tmp_path / "two") == contents(tmp_path / "out")


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from sentbed_corpus import Request, encode_corpus
from sentbed_jobs.local_pool import LocalPool
if __name__ == "__main__":
    request = Request({encoder!r}, ({source!r},), Path({output!r}), {{"use": "toy"}}, shard_rows=2)
    encode_corpus(request, LocalPool(2))
"""


def test_a_command_that_was_killed_goes_on(
    put,
    request_of,
    encoder,
    installed_toy,
    tmp_path,
):
    texts = [f"{chr(97 + i % 26)}{i}" for i in range(400)]
    source = put("in.txt", "\n".join(texts))
    paths = [str(installed_toy), str(Path(toy_plugin.__file__).parent)]
    script = put(
        "script.py",
        SCRIPT.format(
            path=paths,
            encoder=str(tmp_path / "encoder"),
            source=str(source),
            output=str(tmp_path / "out"),
        ),
    )
    process = subprocess.Popen(
        [sys.executable, script], stderr=subprocess.DEVNULL, start_new_session=True
    )
    # What was written before the manifest describes the encoder is not taken up.
    about = tmp_path / "out" / "corpus.json"
    written = (tmp_path / "out").glob
    while (
        len(list(written("vectors/part-*"))) < 5
        or json.loads(about.read_text())["how"] is None
    ):
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    there = len(list(written("vectors/part-*")))
    assert there < 200
    done, messages = again(request_of(source, shard_rows=2))
    assert messages == [f"{there} of 200 shards are there; {200 - there} to encode"]
    assert done.encoded == 400 - 2 * there
    assert list((tmp_path / "out").glob("vectors/.*")) == []
    np.testing.assert_allclose(
        open_vectors(tmp_path / "out")[:], encoder.encode(texts), rtol=1e-6
    )
