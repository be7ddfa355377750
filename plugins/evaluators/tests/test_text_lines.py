from __future__ import annotations

import codecs
import hashlib
from itertools import islice

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import DataError
from sentbed_common import LONGEST_LINE, csv_rows
from sentbed_evaluators.text_lines import lines, read_lines, with_line_ends


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", []),
        ("\ufeff", []),
        ("\n", [""]),
        ("\ufeff\n", [""]),
        ("1", ["1"]),
        ("1\n\n2\r\n\n", ["1", "", "2", ""]),
        ("\ufeff1\n\ufeff2\r", ["1", "\ufeff2"]),
        ("a\x85b\u2028c\x0cd\x1ce\rf\n", ["a\x85b\u2028c\x0cd\x1ce\rf"]),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_lines_end_at_line_feeds_alone(write, content, expected, encoding):
    numbered = lines(write("a.txt", content.encode(encoding)), encoding)
    assert list(numbered) == list(enumerate(expected, start=1))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_an_encoding_of_single_bytes_may_begin_with_the_mark_of_utf_8(write, encoding):
    path = write("a.txt", codecs.BOM_UTF8 + b"caf\xe9\n\xef\xbb\xbf\n")
    assert list(lines(path, encoding)) == [(1, "café"), (2, "ï»¿")]


@pytest.mark.parametrize("before", [0, 1, 700, 5000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bad", [b"ok \xe9 bad", b"\xe9", b"cut \xc3"])
def test_a_wrong_byte_is_named_with_its_line_after_those_before(
    write, before, end, bad
):
    content = b"".join("é%d".encode() % n + end for n in range(before)) + bad
    if bad[-1] != 0xC3:
        content += end + b"more" + end
    numbered = lines(write("a.txt", content))
    with pytest.raises(
        DataError,
        match=rf"found byte 0x(e9|c3), which is not UTF-8.*a\.txt:{before + 1}$",
    ):
        list(numbered)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@given(
    content=st.text("ab,é\n\r\ufeff", max_size=40), repeated=st.sampled_from([1, 3000])
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_hash_is_that_of_the_bytes_that_were_parsed(
    write, encoding, content, repeated
):
    path = write("a.txt", (content * repeated).encode(encoding, "replace"))
    hashes = {}
    for _ in lines(path, encoding, hashes):
        assert hashes == {}
    assert hashes == {path: hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.mark.parametrize("before", [0, 1, 5000])
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_a_nul_is_no_text(write, before, encoding):
    path = write("a.txt", b"fine\n" * before + b"abc\0def\n")
    with pytest.raises(
        DataError, match=rf"character 4 of the line is NUL, .*a\.txt:{before + 1}$"
    ):
        list(lines(path, encoding))


def test_utf_16_without_a_mark_is_not_read_as_utf_8(write):
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le"):
        with pytest.raises(
            DataError,
            match=r"(in UTF-16|is NUL).* convert .*a\.txt:1$",
        ):
            list(lines(write("a.txt", "one\ntwo\n".encode(encoding))))


def test_no_more_is_read_than_asked_for(write):
    path = write("a.txt", b"fine\n" * 100_000 + b"\xff\n")
    assert list(islice(lines(path), 2)) == [(1, "fine"), (2, "fine")]


def test_what_cannot_be_opened_or_decoded_is_an_error(write, tmp_path):
    with pytest.raises(DataError, match="cannot be read"):
        list(lines(tmp_path))
    with pytest.raises(DataError, match=r"is not UTF-16.*a\.txt"):
        list(lines(write("a.txt", "no mark\n"), "utf-16"))


def test_csv_may_have_texts_as_long_as_other_formats(write):
    text = "x" * LONGEST_LINE
    path = write("long.csv", text)
    assert list(csv_rows(with_line_ends(lines(path)), path)) == [(1, [text])]


def test_the_lines_of_an_empty_file_are_an_error(write):
    assert read_lines(write("a.txt", "1\n\n2\r\n\n")) == ["1", "", "2", ""]
    with pytest.raises(DataError, match=r"the file is empty.*b\.txt$"):
        read_lines(write("b.txt", ""))
