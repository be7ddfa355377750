"""Training texts of files: formats, and faults with file and line."""

from __future__ import annotations

import gzip

import pytest
from sentbed import DataError
from sentbed_audit.clean.training_texts import texts_of


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("a.txt", "\ufeffone\r\ntwo, three\n", ["one", "two, three"]),
        ("a.tsv", 'one\ttwo "quoted"\n3\tfour\n', ["one", 'two "quoted"', "3", "four"]),
        ("a.csv", 'one,"two, 2"\n"three\nlines",4\n', ["one", "two, 2", "three\nlines", "4"]),
        ("a.csv", "x" * 200_000, ["x" * 200_000]),
        (
            "a.jsonl",
            '{"a": "one", "b": ["two", {"c": "three"}], "d": 4}\n',
            ["one", "two", "three"],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_texts_are_read_of_each_format(tmp_path, name, content, texts, packed):
    path = tmp_path / name
    data = content.encode()
    if packed:
        path = tmp_path / f"{name}.gz"
        data = gzip.compress(data)
    path.write_bytes(data)
    assert list(texts_of(path)) == texts


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\nfa\xe7ade\n", "byte 0xe7 .* is not utf-8"),
        ("a.jsonl", b'{"a": "b"}\n[1]\n', "holds a JSON list; expected an object"),
        ("a.csv", b'a,b\n"fine,b\n', "is not valid CSV"),
        # Without a time in the file, which would be another in each worker's name of the test.
        (
            "a.txt.gz",
            gzip.compress(b"text\n" * 99, mtime=0)[:-9],
            "damaged or cut short",
        ),
    ],
)
def test_a_fault_is_told_with_its_file(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as raised:
        list(texts_of(path))
    assert name in str(raised.value)
