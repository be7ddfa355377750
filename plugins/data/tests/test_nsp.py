from __future__ import annotations

from itertools import pairwise

import pytest
from sentbed import DataError
from sentbed.tools import Document, structure
from sentbed_data.nsp import Nsp


def pairs(table):
    rows = table.rows(range(len(table)))
    return list(zip(rows["anchor"], rows["positive"], strict=True))


def test_a_pair_is_two_lines_in_a_row_of_one_document(put):
    path = put("a.txt", "\nOne.\nTwo.\r\nThree.\n\n \nFour.\nFive.\n\nAlone.\n")
    source = Nsp(path=path)
    table = source.open()
    assert pairs(table) == [("One.", "Two."), ("Two.", "Three."), ("Four.", "Five.")]
    assert table.columns == source.columns == ("anchor", "positive")
    assert list(source.check()) == []

    first_two = Nsp(path=path, limit=2).open()
    assert pairs(first_two) == pairs(table)[:2]
    assert first_two.fingerprint != table.fingerprint


def test_no_pair_crosses_files(put):
    files = put("b.txt", "B1\nB2"), put("a", "A1\nA2\n")
    assert pairs(Nsp(path=files).open()) == [("B1", "B2"), ("A1", "A2")]


def test_a_recipe_gives_one_path_or_an_array(tmp_path):
    file = str(tmp_path / "a.txt")
    single = Document.of({"path": "a.txt"})
    source = structure(single, Nsp, None, tmp_path)
    assert source.path == file

    several = Document.of({"path": ["a.txt", "data:b"]})
    source = structure(several, Nsp, None, tmp_path)
    assert source.path == (file, "data:b")


def test_a_text_file_with_a_separator_is_a_table(put):
    source = Nsp(path=put("a.txt", "id|text\n1|One.\n2|Two.\n"), separator="|")
    assert list(source.check()) == []
    assert pairs(source.open()) == [("One.", "Two.")]


def test_a_table_is_one_document(put):
    first = put("a.csv", "text\n1\n2\n3\n")
    second = put("b.jsonl", '{"text": "4"}\n' * 2)
    table = Nsp(path=(first, second)).open()
    assert pairs(table) == [("1", "2"), ("2", "3"), ("4", "4")]

    source = Nsp(path=put("c.csv", 'text,n\n1,1\n"",2\n'))
    with pytest.raises(DataError, match=r"column `text`: the text is empty.*c\.csv:3"):
        source.open()


def test_what_cannot_be_read_is_refused(put, tmp_path):
    latin = put("latin.txt", b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"not utf-8.*latin\.txt:3"):
        Nsp(path=latin).open()

    table = Nsp(path=latin, encoding="latin-1").open()
    assert len(table) == 2

    short = Nsp(path=put("short.txt", "one\n\ntwo\n"))
    with pytest.raises(DataError, match=r"no two sentences in a row.*short\.txt"):
        short.open()

    faults = {
        "this is a directory": Nsp(path=str(tmp_path)),
        "does not exist": Nsp(path=(latin, str(tmp_path / "none"))),
        "`path` is empty": Nsp(path=()),
        "no column `story`": Nsp(path=put("a.csv", "text\n1\n"), column="story"),
        "remove `split`": Nsp(path=latin, split="test"),
    }

    for message, source in faults.items():
        (problem,) = source.check()
        assert message in problem


def test_the_books_give_a_row_for_each_line_but_the_last(real):
    books = {"alice_in_wonderland": 1430, "frankenstein": 3356, "great_gatsby": 3377}
    paths = tuple(real(f"narrative/books/{book}.sent.txt") for book in books)
    for path, lines in zip(paths, books.values(), strict=True):
        table = Nsp(path=path).open()
        assert len(table) == lines - 1

    table = Nsp(path=paths).open()
    assert len(table) == sum(books.values()) - 3
    first = pairs(table)[:1428]
    assert all(before[1] == after[0] for before, after in pairwise(first))
