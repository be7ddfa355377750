from __future__ import annotations

from pathlib import Path

import pytest
from sentbed import DataError
from sentbed_evaluators.scored_pair_files import PairFile, TextPairFile

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
    assert pairs.second[1] == "g"
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


def test_texts_may_have_no_score(write):
    path = str(write("p.jsonl", '{"q": "x", "a": " y ", "s": 1}\n'))
    assert TextPairFile(path, ("q", "a")).read() == (["x"], [" y "])
    blank = str(write("b.jsonl", '{"q": "x", "a": " "}\n'))
    with pytest.raises(DataError, match=r"`a`: the text is empty.*b\.jsonl:1$"):
        TextPairFile(blank, ("q", "a")).read()


@pytest.mark.parametrize(
    "score",
    ["NaN", "-Infinity", "null", "true", '"high"', '"1_0"', '""', "1" + "0" * 400],
)
def test_a_score_that_is_no_finite_number_is_named(write, score):
    content = f'{{"sentence1": "a", "sentence2": "b", "score": {score}}}\n'
    with pytest.raises(DataError, match=r"`score`: found .*a number.*p\.jsonl:1$"):
        PairFile(str(write("p.jsonl", content)), COLUMNS).read()


def test_a_score_out_of_its_range_is_named(write):
    path = write("p.tsv", "sentence1\tsentence2\tscore\na\tb\t5\na\tb\t5.1\n")
    with pytest.raises(DataError, match=r"found '5\.1'; expected .* 0 to 5;.*:3$"):
        PairFile(str(path), COLUMNS, score_range=(0, 5)).read()


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (PairFile("nowhere.tsv", COLUMNS), "does not exist"),
        (PairFile("p.txt", COLUMNS), "has the suffix '.txt'"),
        (PairFile("p.tsv", COLUMNS, separator=""), "`separator` is empty"),
        (PairFile("p.tsv", ("a", "b")), r"is \['a', 'b'\], but 3 different columns"),
        (PairFile("p.tsv", ("a", "b", "a")), "names `a` twice"),
        (PairFile("p.tsv", COLUMNS, header=False), "is no position"),
        (PairFile("p.tsv", ("0", "-1", "²"), header=False), "'-1' is no position"),
        (PairFile("p.tsv", COLUMNS), "found no column `sentence1`"),
        (PairFile("p.jsonl", COLUMNS), "no rows of data"),
        (PairFile("folder.tsv", COLUMNS), "is a directory"),
    ],
)
def test_problems_are_seen_in_the_first_row(tmp_path, monkeypatch, file, problem):
    monkeypatch.chdir(tmp_path)
    for name in ("p.txt", "p.tsv", "p.jsonl"):
        Path(name).touch()

    Path("folder.tsv").mkdir()
    (message,) = file.problems()
    with pytest.raises(DataError, match=problem):
        raise DataError(message)
