from __future__ import annotations

import pytest
from sentbed import DataError
from sentbed_evaluators.text_pair_files import TextPairFile

CSV = 'id,answer,question\n1,"a, b","c\nd"\n2,e,f\n'
JSONL = '{"question": "c\\nd", "answer": "a, b", "id": 1}\n\n{"answer": "e", "question": "f"}\n'


@pytest.mark.parametrize(
    ("name", "content", "columns", "fields", "expected"),
    [
        ("p.csv", CSV, ("question", "answer"), {}, (["c\nd", "f"], ["a, b", "e"])),
        ("p.jsonl", JSONL, ("question", "answer"), {}, (["c\nd", "f"], ["a, b", "e"])),
        ("p.tsv", 'q\ta\r\nc "x\tb\r\n', ("a", "q"), {}, (["b"], ['c "x'])),
        (
            "p.txt",
            "9||b||c\n",
            ("2", "1"),
            {"header": False, "separator": "||"},
            (["c"], ["b"]),
        ),
        (
            "p.tsv",
            "b\tc\tmore\nd\te\n",
            ("0", "1"),
            {"header": False},
            (["b", "d"], ["c", "e"]),
        ),
        (
            "p.tsv",
            b"q\ta\n\xe9\tb\n",
            ("q", "a"),
            {"encoding": "latin-1"},
            (["é"], ["b"]),
        ),
    ],
)
def test_each_format_is_read(name, content, columns, fields, expected, write):
    file = TextPairFile(str(write(name, content)), columns, **fields)
    assert list(file.problems()) == []
    assert file.read() == expected


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("p.tsv", "q\tb\nx\ty\n", r"column `a` is not in the header.*p\.tsv:1$"),
        ("p.tsv", "q\ta\nx\ty\nz\n", r"has 1 columns, but the header has 2.*p\.tsv:3$"),
        ("p.tsv", "q\ta\nx\t \n", r"column `a` is empty.*p\.tsv:2$"),
        ("p.tsv", "q\ta\n", r"no pair of sentences.*p\.tsv$"),
        ("p.jsonl", "\n", r"no pair of sentences.*p\.jsonl$"),
        ("p.tsv", "", r"no pair of sentences.*p\.tsv$"),
        ("p.tsv", b"q\ta\nx\t\xe9\n", r"found byte 0xe9.*p\.tsv:2$"),
        ("p.csv", 'q,a\n"x,y\n', r"not valid CSV.*p\.csv:2$"),
        (
            "p.jsonl",
            '{"q": "x", "a": "y"}\n{"q": "x"}\n',
            r"key `a` is missing.*p\.jsonl:2$",
        ),
        (
            "p.jsonl",
            '{"q": "x", "a": 3}\n',
            r"`a` is 3, but a text was expected.*p\.jsonl:1$",
        ),
        (
            "p.jsonl",
            '{"q": "x", "a": "\\ud800"}\n',
            r"a text was expected.*p\.jsonl:1$",
        ),
        ("p.jsonl", "[1]\n", r"JSON list; expected an object.*p\.jsonl:1$"),
        ("p.jsonl", "\n\n{q}\n", r"the line is not valid JSON.*p\.jsonl:3$"),
        ("p.jsonl", b'{"q": "x", "a": "\xff"}\n', r"found byte 0xff.*p\.jsonl:1$"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_file_and_line(
    name, content, problem, write
):
    with pytest.raises(DataError, match=problem):
        TextPairFile(str(write(name, content)), ("q", "a")).read()


@pytest.mark.parametrize(
    ("path", "columns", "fields", "problem"),
    [
        ("p.txt", ("q", "a"), {}, "says nothing about its columns"),
        ("p.tsv", ("q", "a"), {"separator": ""}, "`separator` is empty"),
        ("p.tsv", ("q", "q"), {}, "names `q` twice"),
        ("p.tsv", ("q", "1"), {"header": False}, "columns are positions"),
        ("p.jsonl", ("q", "a"), {"header": False}, "means nothing for a jsonl file"),
        ("p.tsv", ("q", "a"), {"encoding": "hex"}, "Python does not know"),
    ],
)
def test_problems_name_fields_that_cannot_be_used(
    write, path, columns, fields, problem
):
    (message,) = TextPairFile(str(write(path, "")), columns, **fields).problems()
    assert problem in message
