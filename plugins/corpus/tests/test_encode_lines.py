from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sentbed import DataError, Encoder
from sentbed_corpus import encode_lines as module
from sentbed_corpus.encode_lines import encode_lines

TOY = {"use": "toy"}


@pytest.fixture
def encode_file(encoder, tmp_path):
    """Encode the lines of a file with the encoder on disk; returns what the written file holds."""

    def encode(source):
        shape = encode_lines(
            str(tmp_path / "encoder"), TOY, str(source), tmp_path / "out.npy"
        )
        vectors = np.load(tmp_path / "out.npy")
        assert (vectors.shape, vectors.dtype) == (shape, np.float32)
        return vectors

    return encode


@pytest.mark.parametrize("window", [1, 2, 3, 6, 7, 100])
def test_row_i_is_line_i_whatever_the_window(
    window,
    encoder,
    encode_file,
    put,
    monkeypatch,
):
    monkeypatch.setattr(module, "WINDOW", window)
    texts = ["one", "two and three", "", "one", "é ☃", "the last"]
    vectors = encode_file(put("in.txt", "\n".join(texts) + "\n"))
    np.testing.assert_allclose(vectors, encoder.encode(texts), rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\nb\n", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\n", [""]),
        (b"a\n\n\nb\n\n", ["a", "", "", "b", ""]),
        ("a\x85b\nc".encode(), ["a\x85b", "c"]),
        (
            "a\u2028b\u2029c\x0b\x0cd\x1c\ne\n".encode(),
            ["a\u2028b\u2029c\x0b\x0cd\x1c", "e"],
        ),
        (b"a\rb\nc", ["a\rb", "c"]),
        (b"\xef\xbb\xbfa\nb\n", ["a", "b"]),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nowhere_else(
    content,
    texts,
    encoder,
    encode_file,
    put,
):
    vectors = encode_file(put("in.txt", content))
    np.testing.assert_allclose(vectors, encoder.encode(texts), rtol=1e-6)


def test_a_dash_reads_standard_input(encoder, encode_file, monkeypatch):
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=io.BytesIO("one\ntwö".encode()))
    )
    np.testing.assert_allclose(
        encode_file("-"), encoder.encode(["one", "twö"]), rtol=1e-6
    )


def test_more_lines_than_a_block_of_standard_input_are_all_read(
    encode_file, monkeypatch
):
    line = b"x" * 1023 + b"\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(line * 1500)))
    assert encode_file("-").shape == (1500, 4)


@pytest.mark.parametrize("source", ["file", "-"])
def test_an_empty_input_is_an_error_that_writes_nothing(
    source,
    encode_file,
    put,
    monkeypatch,
    tmp_path,
):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    named = source if source == "-" else put("in.txt", b"")
    with pytest.raises(DataError) as caught:
        encode_file(named)
    assert (
        str(caught.value) == f"the file is empty, expected one text per line @ {named}"
    )
    assert not (tmp_path / "out.npy").exists()


def test_bytes_that_are_not_utf8_are_an_error_with_their_line(
    encode_file, put, tmp_path
):
    source = put("in.txt", b"fine\n\ncaf\xe9 cr\xe8me\nfine\n")
    with pytest.raises(DataError) as caught:
        encode_file(source)
    assert str(caught.value) == (
        f"byte 0xe9 (number 4 of the line) is not utf-8; convert the file to UTF-8, or name "
        f"its encoding @ {source}:3"
    )
    assert not (tmp_path / "out.npy").exists()


def test_a_missing_file_is_an_error(encode_file, tmp_path):
    with pytest.raises(DataError) as caught:
        encode_file(tmp_path / "none.txt")
    assert (
        str(caught.value)
        == f"cannot read the file: No such file or directory; check the path @ {tmp_path / 'none.txt'}"
    )


def test_a_directory_as_input_is_an_error(encode_file, tmp_path):
    with pytest.raises(DataError):
        encode_file(tmp_path)


def test_an_error_while_encoding_keeps_the_output_that_was_there(
    encode_file, put, tmp_path, monkeypatch
):
    encode_file(put("in.txt", "one\n"))
    before = (tmp_path / "out.npy").read_bytes()
    monkeypatch.setattr(module, "WINDOW", 1)
    real = Encoder.encode

    def fail_at_the_third(self, texts, progress=None):
        if texts == ["three"]:
            raise KeyboardInterrupt
        return real(self, texts, progress)

    monkeypatch.setattr(Encoder, "encode", fail_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        encode_file(put("in.txt", "one\ntwo\nthree\nfour\n"))
    assert (tmp_path / "out.npy").read_bytes() == before
    assert {
        path.name for path in tmp_path.iterdir() if path.name.startswith(".")
    } == set()
