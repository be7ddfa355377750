from __future__ import annotations

from pathlib import Path

import pytest
from sentbed import DataError
from sentbed_evaluators.scored_pair_files import PairFile

CONTENTS = {
    "pairs.csv": 'score,sentence1,sentence2\n4.5,"a ""b"", c","d\ne"\n1,f,g\n',
    "pairs.tsv": 'score\tsentence1\tsentence2\n4.5\ta "b", c\td"e\n1\tf\tg\n',
    "pairs.jsonl": '{"score": 4.5, "sentence1": "a \\"b\\", c", "sentence2": "d\\ne"}\n'
    '{"sentence2": "g", "sentence1": "f", "score": 1}\n',
}
COLUMNS = ("sentence1", "sentence2", "score")
SECOND = {"pairs.csv": "d\ne", "pairs.tsv": 'd"e', "pairs.jsonl": "d\ne"}


@pytest.mark.parametrize("name", CONTENTS)
def test_each_suffix_is_read_by_its_own_quoting_rules(write, name):
    pairs = PairFile(str(write(name, CONTENTS[name])), COLUMNS).read()
    assert pairs.first == ('a "b", c', "f")
    assert pairs.second == (SECOND[name], "g")
    assert pairs.scores == (4.5, 1.0)


@pytest.mark.parametrize("name", CONTENTS)
def test_windows_line_ends_and_a_byte_order_mark_change_nothing(write, name):
    content = "\ufeff" + CONTENTS[name].replace("\n", "\r\n") + "\r\n"
    pairs = PairFile(str(write(name, content)), COLUMNS).read()
    assert pairs.second == (SECOND[name], "g")
    assert (pairs.first[1], pairs.scores) == ("f", (4.5, 1.0))


def test_columns_without_header_are_positions(write):
    path = write(
        "sts-dev.csv",
        'x\ty\tz\t1\t2.5\tsays "hi\tno " end\nx\ty\tz\t2\t0\ta\tb\tlicence\turl\n',
    )
    pairs = PairFile(str(path), ("5", "6", "4"), header=False, separator="\t").read()
    assert pairs.first == ('says "hi', "a")
    assert pairs.second == ('no " end', "b")
    assert pairs.scores == (2.5, 0.0)


def test_separator_may_have_several_characters(write):
    path = write("cnsd.txt", "id-1||一个女人。||两个|女人。||5\nid-2||a||b||0\n")
    pairs = PairFile(str(path), ("1", "2", "3"), header=False, separator="||").read()
    assert pairs.second[0] == "两个|女人。"
    assert pairs.scores == (5.0, 0.0)


def test_another_encoding_is_used_where_named(write):
    path = write("p.tsv", "sentence1\tsentence2\tscore\ncafé\tx\t1\n".encode("latin-1"))
    assert PairFile(str(path), COLUMNS, encoding="latin-1").read().first == ("café",)


HEADER = "sentence1\tsentence2\tscore\n"
BROKEN = {
    "wrong byte": (
        "p.tsv",
        HEADER.encode() + b"a\tb\t1\ncaf\xe9\tb\t1\n",
        r"byte 0xe9.* @ .*p\.tsv:3$",
    ),
    "short row": (
        "p.tsv",
        HEADER + "a\tb\t1\na\tb\n",
        r"2 columns, but the header has 3.*p\.tsv:3$",
    ),
    "long row": (
        "p.csv",
        "sentence1,sentence2,score\na,b,c,1\n",
        r"4 columns.*header has 3.*p\.csv:2$",
    ),
    "blank row": ("p.tsv", HEADER + "a\tb\t1\n\na\tb\t1\n", r"1 columns.*p\.tsv:3$"),
    "blank header": (
        "p.tsv",
        "\n" + HEADER,
        r"`sentence1` is not.*; set `columns` to those .* @ .*:1$",
    ),
    "no score column": (
        "p.tsv",
        "sentence1\tsentence2\tscroe\na\tb\t1\n",
        r"`score` is not.*`scroe`.*:1$",
    ),
    "column twice": (
        "p.tsv",
        "sentence1\tsentence1\tscore\na\tb\t1\n",
        r"`sentence1` is .* more than once.*:1$",
    ),
    "NaN": (
        "p.tsv",
        HEADER + "a\tb\tnan\n",
        r"score is 'nan', but a finite.*p\.tsv:2$",
    ),
    "infinite": ("p.tsv", HEADER + "a\tb\t-inf\n", r"score is '-inf'.*p\.tsv:2$"),
    "text score": ("p.tsv", HEADER + "a\tb\thigh\n", r"score is 'high'.*p\.tsv:2$"),
    "underscore": ("p.tsv", HEADER + "a\tb\t1_0\n", r"score is '1_0'.*p\.tsv:2$"),
    "no score": ("p.tsv", HEADER + "a\tb\t\n", r"score is ''.*p\.tsv:2$"),
    "empty": ("p.tsv", "", r"no pair of sentences.*p\.tsv$"),
    "empty lines": ("p.csv", "\n\n", r"no pair of sentences.*p\.csv$"),
    "header only": ("p.tsv", HEADER, r"no pair of sentences.*p\.tsv$"),
    "open quote": (
        "p.csv",
        'sentence1,sentence2,score\na,b,1\n"a,b,1\nc,d,1\n',
        r"not valid CSV.*p\.csv:3$",
    ),
    "line after a quoted line end": (
        "p.csv",
        'sentence1,sentence2,score\n"a\nb",c,1\na,b,x\n',
        r"score is 'x'.*p\.csv:4$",
    ),
    "not JSON": ("p.jsonl", '{"sentence1": \n', r"not valid JSON.*p\.jsonl:1$"),
    "a list": ("p.jsonl", "[1]\n", r"JSON list.*p\.jsonl:1$"),
    "missing key": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b"}\n',
        r"key `score` is missing.*:1$",
    ),
    "JSON NaN": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b", "score": NaN}\n',
        r"is nan.*:1$",
    ),
    "JSON huge": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b", "score": 1%s}\n' % ("0" * 400),
        r"finite.*:1$",
    ),
    "JSON null": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b", "score": null}\n',
        r"is None.*:1$",
    ),
    "JSON text score": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b", "score": "1"}\n',
        r"without quotes.*:1$",
    ),
    "JSON bool": (
        "p.jsonl",
        '{"sentence1": "a", "sentence2": "b", "score": true}\n',
        r"is True.*:1$",
    ),
    "JSON sentence": (
        "p.jsonl",
        '{"sentence1": 3, "sentence2": "b", "score": 1}\n',
        r"`sentence1` is 3.*:1$",
    ),
    "surrogate": (
        "p.jsonl",
        '{"sentence1": "\\ud800", "sentence2": "b", "score": 1}\n',
        r"`sentence1` is.*:1$",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_named_with_its_line(write, case):
    name, content, message = BROKEN[case]
    with pytest.raises(DataError, match=message):
        PairFile(str(write(name, content)), COLUMNS).read()


def test_a_short_row_without_header_is_named(write):
    path = write("p.txt", "a\tb\t1\na\tb\n")
    with pytest.raises(DataError, match=r"2 columns, but 3 were expected.*p\.txt:2$"):
        PairFile(str(path), ("0", "1", "2"), header=False, separator="\t").read()


def test_a_score_out_of_its_range_is_named(write):
    path = write("p.tsv", HEADER + "a\tb\t5\na\tb\t5.1\n")
    with pytest.raises(
        DataError, match=r"score is 5\.1, but scores here go from 0 to 5.*:3$"
    ):
        PairFile(str(path), COLUMNS, score_range=(0, 5)).read()


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (PairFile("nowhere.tsv", COLUMNS), "does not exist"),
        (PairFile("p.txt", COLUMNS), "ends in '.txt'"),
        (PairFile("p.tsv", COLUMNS, separator=""), "`separator` is empty"),
        (PairFile("p.tsv", ("a", "b")), r"is \['a', 'b'\], but 3 different columns"),
        (
            PairFile("p.tsv", ("a", "b", "a")),
            "names `a` twice, but 3 different columns",
        ),
        (PairFile("p.tsv", COLUMNS, header=False), "columns are positions"),
        (PairFile("p.tsv", ("0", "-1", "²"), header=False), r"\['-1', '²'\]"),
        (PairFile("p.jsonl", COLUMNS, header=False), "means nothing for a jsonl"),
        (PairFile("p.tsv", COLUMNS, encoding="utf-88"), "`encoding` is 'utf-88'"),
        (PairFile("p.tsv", COLUMNS, encoding="hex"), "`encoding` is 'hex'"),
        (PairFile("folder.tsv", COLUMNS), "is a directory"),
    ],
)
def test_problems_are_seen_without_reading(tmp_path, monkeypatch, file, problem):
    monkeypatch.chdir(tmp_path)
    for name in ("p.txt", "p.tsv", "p.jsonl"):
        Path(name).touch()
    Path("folder.tsv").mkdir()
    (message,) = file.problems()
    with pytest.raises(DataError, match=problem):
        raise DataError(message)


def test_blank_lines_between_json_objects_are_skipped_and_counted(write):
    row = '{"sentence1": "a", "sentence2": "b", "score": %s}\n'
    assert PairFile(
        str(write("p.jsonl", row % 1 + "\n \n" + row % 2)), COLUMNS
    ).read().scores == (1, 2)
    with pytest.raises(DataError, match=r"score is None.*p\.jsonl:4$"):
        PairFile(
            str(write("p.jsonl", row % 1 + "\n \n" + row % "null")), COLUMNS
        ).read()
