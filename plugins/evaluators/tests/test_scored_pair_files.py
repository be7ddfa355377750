from __future__ import annotations

from pathlib import Path

import pytest
from sentbed import DataError
from sentbed_evaluators.scored_pair_files import PairFile, TextPairFile

COLUMNS = ("sentence1", "sentence2", "score")


def test_a_json_score_may_be_a_number_or_its_text(write):
    rows = (
        '{"score": 4.5, "sentence1": "a", "sentence2": "b"}\n'
        '{"score": "1", "sentence1": "c", "sentence2": "d"}\n'
    )
    pairs = PairFile(str(write("p.jsonl", rows)), COLUMNS).read()
    assert pairs.texts == [("a", "b"), ("c", "d")]
    assert pairs.scores == (4.5, 1.0)


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
