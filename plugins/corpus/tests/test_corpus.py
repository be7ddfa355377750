"""Corpora in shards: row i of the vectors is text i, and an interrupted command does what is missing."""

from __future__ import annotations

import gzip
import json
import os
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
from sentbed import DataError, Encoder, ModelError, RunError
from sentbed_corpus import Request, encode_corpus, open_vectors
from sentbed_corpus.input_texts import find_inputs, input_texts
from sentbed_jobs.local import Local

TEXTS = ["one", "two and three", "", "é ☃", "one", "a longer text with more words", "x"]


@pytest.fixture
def request_of(encoder, tmp_path):
    def make(*inputs, **fields):
        defaults = {
            "output": tmp_path / "out",
            "runtime": {"use": "toy"},
            "shard_rows": 3,
        }
        locations = tuple(map(str, inputs))
        return Request(str(tmp_path / "encoder"), locations, **defaults | fields)

    return make


@pytest.fixture
def letters(request_of, put):
    """The request of a corpus with the rows a to h, which has been encoded."""
    request = request_of(put("in.txt", "\n".join("abcdefgh")))
    encode_corpus(request)
    return request


@pytest.fixture
def mixed(put, tmp_path):
    """`TEXTS` once in each of three formats."""
    lines = ""
    for number, text in enumerate(TEXTS):
        lines += json.dumps({"id": number, "text": text}) + "\n"

    parquet.write_table(pa.table({"text": TEXTS}), tmp_path / "c.parquet")
    return [
        put("a.txt", "\n".join(TEXTS)),
        put("b.jsonl.gz", gzip.compress(lines.encode())),
        tmp_path / "c.parquet",
    ]


def modification_times(directory):
    times = {}
    for file in (directory / "vectors").iterdir():
        times[file.name] = file.stat().st_mtime_ns
    return times


def contents(directory):
    contents_of_files = {}
    for file in (directory / "vectors").iterdir():
        contents_of_files[file.name] = file.read_bytes()
    return contents_of_files


# --- inputs ------------------------------------------------------------------------------------------------


def test_inputs_come_in_the_order_named_and_files_by_name(put, tmp_path, monkeypatch):
    for name in (
        "d/b.txt",
        "d/a.jsonl",
        "d/sub/c.parquet",
        "d/notes.md",
        "d/.hidden.txt",
        "z.txt",
        "p-2.csv",
        "p-10.csv",
    ):
        put(name, "x")
    monkeypatch.chdir(tmp_path)
    names = ["z.txt", "d", "p-*.csv"]

    assert [os.path.relpath(location) for location in find_inputs(names)] == [
        "z.txt",
        "d/a.jsonl",
        "d/b.txt",
        "d/sub/c.parquet",
        "p-10.csv",
        "p-2.csv",
    ]
    assert find_inputs(["data:a.csv", "hub:a/b"]) == ["data:a.csv", "hub:a/b"]

    (tmp_path / "empty").mkdir()
    for name in ("empty", "q-*.txt"):
        with pytest.raises(DataError, match="there is no such file"):
            find_inputs([name])


@pytest.mark.parametrize("suffix", [".txt", ".txt.gz"])
@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n", [""]),
        (b"a\n\n\nb\n\n", ["a", "", "", "b", ""]),
        ("a\x85b\u2028c\x0b\x0cd\x1c\ne".encode(), ["a\x85b\u2028c\x0b\x0cd\x1c", "e"]),
        (b"a\rb\nc", ["a\rb", "c"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"", []),
    ],
)
def test_a_text_is_a_line_that_ends_at_a_line_feed_and_nowhere_else(
    content, texts, suffix, put
):
    if suffix.endswith(".gz"):
        content = gzip.compress(content)
    assert list(input_texts(str(put(f"in{suffix}", content)), "text")) == texts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.txt", b"a\nb\nc\xff\n", r"byte 0xff .* is not utf-8; .* @ PATH:3"),
        ("in.txt", b"", "the input is empty, expected one text per row; .* @ PATH"),
        ("in.doc", b"a", "`PATH` has the suffix '.doc'; expected one of .*"),
        (
            "in.jsonl",
            b'{"text": "a"}\n{"text": null}\n',
            "column `text`: found None .* @ PATH:2",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_found_before_anything_is_encoded(
    name, content, message, put, request_of, tmp_path
):
    source = put(name, content)
    with pytest.raises(DataError, match=f"^{message.replace('PATH', str(source))}$"):
        encode_corpus(request_of(source))
    assert not (tmp_path / "out").exists()


# --- vectors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shard_rows", [1, 3, 7, 100])
def test_every_row_has_its_vector_in_the_order_of_the_input(
    shard_rows, mixed, encoder, request_of, tmp_path
):
    summary = encode_corpus(request_of(*mixed, shard_rows=shard_rows))
    shards = 3 * -(-7 // shard_rows)

    assert (summary.rows, summary.encoded, summary.shards) == (21, 21, shards)

    shards = open_vectors(tmp_path / "out")
    assert len(shards) == summary.shards
    vectors = np.concatenate(shards)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode(TEXTS * 3), rtol=1e-6)


def test_float16_halves_the_vectors(request_of, put, encoder, tmp_path):
    source = put("in.txt", "\n".join(TEXTS))
    encode_corpus(request_of(source, dtype="float16"))

    vectors = np.concatenate(open_vectors(tmp_path / "out"))
    expected = encoder.encode(TEXTS).astype(np.float16)
    assert vectors.dtype == np.float16
    np.testing.assert_array_equal(vectors, expected)


def test_the_manifest_says_what_the_vectors_are_of(letters, tmp_path):
    manifest = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert manifest["rows"] == 8
    assert [Path(entry["path"]).name for entry in manifest["inputs"]] == ["in.txt"]

    releases = dict.fromkeys(("backbone", "pooler", "runtime"), "toy 1.0")
    assert manifest["request"]["plugins"] == releases
    assert manifest["request"]["runtime"] == {"use": "toy"}
    assert (manifest["encoder"]["width"], manifest["encoder"]["precision"]) == (
        4,
        "fp64",
    )


@pytest.mark.parametrize(("value", "dtype"), [(np.nan, "float32"), (1e5, "float16")])
def test_vectors_that_are_no_numbers_are_not_written(
    value, dtype, put, request_of, encoder, tmp_path
):
    embedding = np.full_like(encoder.backbone.embedding, value)
    np.save(tmp_path / "encoder" / "backbone" / "embedding.npy", embedding)
    source = put("in.txt", "a\nb\n")

    with pytest.raises(
        RunError, match=f"^rows 1 to 2 of {source}: the vectors have NaN"
    ):
        encode_corpus(request_of(source, dtype=dtype))
    assert list((tmp_path / "out").glob("vectors/*")) == []


# --- going on ----------------------------------------------------------------------------------------------


def test_only_a_shard_that_is_missing_is_encoded_again(mixed, request_of, tmp_path):
    request = request_of(*mixed)
    encode_corpus(request)
    before = contents(tmp_path / "out")
    times = modification_times(tmp_path / "out")
    messages = []

    assert encode_corpus(request, say=messages.append).encoded == 0
    assert messages == ["9 of 9 shards are there; none to encode"]
    assert modification_times(tmp_path / "out") == times

    missing = tmp_path / "out" / "vectors" / "part-0000003.npy"
    missing.unlink()
    with pytest.raises(DataError, match="has 18 of 21 vectors"):
        open_vectors(tmp_path / "out")
    assert encode_corpus(request).encoded == 3
    assert contents(tmp_path / "out") == before

    manifest = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert manifest["encoder"]["width"] == 4


def test_shards_of_which_nobody_knows_how_they_were_made_are_encoded_again(letters):
    file = letters.output / "corpus.json"
    manifest = json.loads(file.read_text())
    file.write_text(json.dumps(manifest | {"encoder": None}))

    assert encode_corpus(letters).encoded == 8
    assert json.loads(file.read_text()) == manifest


def test_an_encoder_that_computes_otherwise_than_before_is_refused(
    letters, monkeypatch
):
    manifest = (letters.output / "corpus.json").read_text()
    missing = letters.output / "vectors" / "part-0000001.npy"
    missing.unlink()
    # As `auto` on a machine with other instructions.
    described = {"device": "toy", "precision": "bf16", "token_budget": 64}
    monkeypatch.setattr(toy_plugin.Engine, "describe", lambda self: described)

    with pytest.raises(
        RunError, match=r"^rows 4 to 6 of .*`precision` was 'fp64' and is 'bf16'; set"
    ):
        encode_corpus(letters)
    assert not missing.exists()
    assert (letters.output / "corpus.json").read_text() == manifest


def test_a_second_command_in_the_same_directory_is_refused_and_disturbs_nothing(
    put, request_of, tmp_path
):
    request = request_of(put("in.txt", "a\nb\nc\nd\ne\n"))

    @contextmanager
    def bar(total, step):
        for overwrite in (False, True):
            with pytest.raises(RunError, match="another process is at work on"):
                encode_corpus(request, overwrite=overwrite)
        yield lambda _: None

    assert encode_corpus(request, bar=bar).encoded == 5
    assert list(map(len, open_vectors(tmp_path / "out"))) == [3, 2]


def test_an_error_leaves_the_shards_before_it_and_the_rest_is_done_later(
    put, request_of, encoder, tmp_path, monkeypatch
):
    request = request_of(put("in.txt", "a\nb\nc\nd\ne\nf\ng\nh\n"))
    real = Encoder.encode

    def fail(self, texts, progress=None):
        if "g" in texts:
            raise KeyboardInterrupt
        return real(self, texts, progress)

    monkeypatch.setattr(Encoder, "encode", fail)

    with pytest.raises(KeyboardInterrupt) as caught:
        encode_corpus(request)

    monkeypatch.setattr(Encoder, "encode", real)
    assert caught.value.__notes__ == [
        "2 of 3 shards are finished and stay; the same command does the rest"
    ]
    assert sorted(contents(tmp_path / "out")) == [
        "part-0000000.npy",
        "part-0000001.npy",
    ]
    assert encode_corpus(request).encoded == 2
    vectors = np.concatenate(open_vectors(tmp_path / "out"))
    np.testing.assert_allclose(vectors, encoder.encode(list("abcdefgh")), rtol=1e-6)


def test_moved_files_are_the_same_corpus_and_changed_ones_are_not(
    put, request_of, tmp_path
):
    encode_corpus(request_of(put("a/in.txt", "\n".join(TEXTS))))
    moved = put("b/in.txt", "\n".join(TEXTS))

    assert encode_corpus(request_of(moved)).encoded == 0

    changed = put("b/in.txt", "\n".join([*TEXTS[:-1], "y"]))
    with pytest.raises(RunError, match="another request: `inputs` has changed; choose"):
        encode_corpus(request_of(changed))
    assert encode_corpus(request_of(changed), overwrite=True).encoded == 7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shard_rows": 2}, "`shard_rows` was 3 and is 2"),
        ({"dtype": "float16"}, "`dtype` was 'float32' and is 'float16'"),
        ({"runtime": {"use": "toy", "precision": "fp64"}}, "`runtime` was .*'fp64'"),
    ],
)
def test_another_request_is_refused_with_what_differs(change, message, letters, put):
    before = contents(letters.output)
    source = letters.output.parent / "in.txt"
    fields = {"shard_rows": 3, "runtime": {"use": "toy"}, **change}
    other = Request(letters.encoder, (str(source),), letters.output, **fields)

    with pytest.raises(RunError, match=message):
        encode_corpus(other)
    assert contents(letters.output) == before
    assert encode_corpus(other, overwrite=True).encoded == 8


def test_another_encoder_is_refused(letters, encoder, tmp_path):
    file = tmp_path / "encoder" / "backbone" / "embedding.npy"
    np.save(file, encoder.backbone.embedding + 1)
    with pytest.raises(RunError, match="`encoder` has changed"):
        encode_corpus(letters)


def test_a_corpus_does_not_go_on_with_another_release_of_a_plugin(
    letters, installed_toy
):
    metadata = installed_toy / "toy-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 1.0", "Version: 1.1"))
    with pytest.raises(RunError, match=r"`plugins` was .*toy 1.0.* and is .*toy 1.1"):
        encode_corpus(letters)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_with_anything_else_in_it_is_left_alone(
    overwrite, put, request_of, tmp_path
):
    source = put("in.txt", "a\n")
    put("out/vectors/mine.txt", "dear")

    with pytest.raises(RunError, match="has other files than the vectors of a corpus"):
        encode_corpus(request_of(source), overwrite=overwrite)
    assert (tmp_path / "out" / "vectors" / "mine.txt").read_text() == "dear"
    with pytest.raises(RunError, match="choose another place"):
        encode_corpus(request_of(source, output=source), overwrite=overwrite)
    assert source.read_text() == "a\n"


def test_a_damaged_manifest_is_an_error_that_overwriting_mends(letters):
    (letters.output / "corpus.json").write_text('{"rows": 8, "inp')
    with pytest.raises(
        RunError, match=r"is damaged .*; start again with `--overwrite`"
    ):
        encode_corpus(letters)
    assert encode_corpus(letters, overwrite=True).encoded == 8


def test_a_directory_that_is_no_encoder_is_an_error(put, installed_toy, tmp_path):
    source = str(put("in.txt", "a\n"))
    request = Request(str(tmp_path), (source,), tmp_path / "out", {"use": "toy"})
    with pytest.raises(ModelError, match="is not an encoder"):
        encode_corpus(request)


# --- workers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_two_processes_write_what_one_writes(mixed, request_of, tmp_path):
    encode_corpus(request_of(*mixed))
    encode_corpus(request_of(*mixed, output=tmp_path / "two"), Local(2))
    assert contents(tmp_path / "two") == contents(tmp_path / "out")


SCRIPT = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
from sentbed_corpus import Request, encode_corpus
from sentbed_jobs.local import Local
if __name__ == "__main__":
    request = Request({encoder!r}, ({source!r},), Path({output!r}), {{"use": "toy"}}, shard_rows=2)
    encode_corpus(request, Local(2))
"""


def test_a_command_that_was_killed_goes_on(
    put, request_of, encoder, installed_toy, tmp_path
):
    texts = [f"{chr(97 + i % 26)}{i}" for i in range(400)]
    source = put("in.txt", "\n".join(texts))
    out = tmp_path / "out"
    script = SCRIPT.format(
        path=[str(installed_toy), str(Path(toy_plugin.__file__).parent)],
        encoder=str(tmp_path / "encoder"),
        source=str(source),
        output=str(out),
    )
    process = subprocess.Popen(
        [sys.executable, put("script.py", script)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # What was written before the manifest has the encoder's protocol is encoded again.
    while (
        len(list(out.glob("vectors/part-*"))) < 5
        or json.loads((out / "corpus.json").read_text())["encoder"] is None
    ):
        assert process.poll() is None
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = len(list(out.glob("vectors/part-*")))

    assert finished < 200

    summary = encode_corpus(request_of(source, shard_rows=2))
    assert summary.encoded == 400 - 2 * finished
    assert list(out.glob("vectors/.*")) == []
    vectors = np.concatenate(open_vectors(out))
    np.testing.assert_allclose(vectors, encoder.encode(texts), rtol=1e-6)
