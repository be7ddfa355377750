from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from sentbed import DataError
from sentbed.tools import Document, structure
from sentbed_data.dropout import Dropout
from sentbed_data.nsp import Nsp


def pairs(table):
    rows = table.rows(range(len(table)))
    return list(zip(rows["anchor"], rows["positive"], strict=True))


def table_file(path, columns):
    """Write a table in the format of the file's suffix and return its path."""
    import pyarrow
    from pyarrow import parquet

    path.parent.mkdir(exist_ok=True)
    rows = list(zip(*columns.values(), strict=True))
    match path.suffix:
        case ".parquet":
            parquet.write_table(pyarrow.table(columns), path, row_group_size=2)
        case ".arrow":
            table = pyarrow.table(columns)
            with pyarrow.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table, max_chunksize=2)
        case ".jsonl":
            path.write_text(
                "".join(
                    json.dumps(dict(zip(columns, row, strict=True))) + "\n"
                    for row in rows
                )
            )
        case suffix:
            blank = "," if suffix == ".csv" else "\t"
            lines = [blank.join(map(str, row)) for row in [tuple(columns), *rows]]
            path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_pair_is_two_lines_in_a_row_of_one_document(put):
    source = Nsp(
        path=put("a.txt", "\nOne.\nTwo.\r\nThree.\n\n \nFour.\nFive.\n\nAlone.\n")
    )
    table = source.open()
    assert pairs(table) == [("One.", "Two."), ("Two.", "Three."), ("Four.", "Five.")]
    assert table.columns == source.columns == ("anchor", "positive")
    assert table.left_out == {}
    assert list(source.check()) == []


def test_no_pair_crosses_files_and_a_directory_is_read_in_order(put, tmp_path):
    put("books/b.txt", "B1\nB2")
    put("books/a.sent.txt", "A1\nA2")
    put("books/notes.md", "no\nbook")
    other = put("c", "C1\nC2\n")
    expected = [("A1", "A2"), ("B1", "B2")]
    assert pairs(Nsp(path=str(tmp_path / "books")).open()) == expected
    assert pairs(Nsp(path=(other, str(tmp_path / "books"))).open()) == [
        ("C1", "C2"),
        *expected,
    ]


def test_a_recipe_gives_one_path_or_an_array(tmp_path):
    document = Document.of({"path": "a.txt"})
    assert structure(document, Nsp, None, tmp_path).path == str(tmp_path / "a.txt")
    document = Document.of({"path": ["a.txt", "data:b"]})
    assert structure(document, Nsp, None, tmp_path).path == (
        str(tmp_path / "a.txt"),
        "data:b",
    )


def test_pairs_with_a_sentence_that_is_too_short_or_long_are_left_out(put):
    path = put("a.txt", "a b c\na b\na b c d\n一二三\na b c d e f\n")
    table = Nsp(path=path, min_words=3, max_words=5).open()
    assert pairs(table) == [("a b c d", "一二三")]
    assert table.left_out == {"pairs outside of min_words and max_words": 3}
    assert len(Nsp(path=path, min_words=2).open()) == 4


def test_limit_gives_the_first_rows(put):
    path = put("a.txt", "1\n2\n3\n4\n")
    assert pairs(Nsp(path=path, limit=2).open()) == [("1", "2"), ("2", "3")]


def test_running_text_is_split_into_sentences(put):
    path = put(
        "a.txt",
        "Mr. Ferris came at 5 p.m. on Jan. 3, and\nfound   nobody. “Who is\nthere?” he asked. "
        "It didn't answer!\n\n"
        "A heading without stop\n \nHe left.\n",
    )
    sentences = [
        "Mr. Ferris came at 5 p.m. on Jan. 3, and found nobody.",
        "“Who is there?” he asked.",
        "It didn't answer!",
        "A heading without stop",
        "He left.",
    ]
    table = Nsp(path=path, format="text").open()
    assert pairs(table) == list(pairwise(sentences))


def test_running_text_is_split_at_paragraphs_and_files_only(put):
    paths = (put("a.txt", "one\n\ntwo"), put("b.txt", "three\n\nfour"))
    assert pairs(Nsp(path=paths, format="text").open()) == [
        ("one", "two"),
        ("three", "four"),
    ]


def test_the_library_that_splits_is_named_with_its_extra(put, monkeypatch):
    path = put("a.txt", "One. Two.\n")
    monkeypatch.setattr(
        "sentbed_data.parquet_arrow.importlib.util.find_spec", lambda name: None
    )
    source = Nsp(path=path, format="text")
    assert ["sentbed-data[sentences]" in problem for problem in source.check()] == [
        True
    ]
    with pytest.raises(
        DataError, match=r"needs the package `syntok`.*'sentbed-data\[sentences\]'"
    ):
        source.open()
    assert list(Nsp(path=path).check()) == []


def test_what_cannot_be_read_is_refused(put, tmp_path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"one\ntwo\ncaf\xe9\n")
    with pytest.raises(DataError, match=r"not utf-8.*latin\.txt:3"):
        Nsp(path=str(latin)).open()
    assert len(Nsp(path=str(latin), encoding="latin-1").open()) == 2
    with pytest.raises(DataError, match=r"no two sentences in a row.*short\.txt"):
        Nsp(path=put("short.txt", "one\n\ntwo\n")).open()
    (tmp_path / "empty").mkdir()
    faults = {
        "no `.txt` file": Nsp(path=str(tmp_path / "empty")),
        "does not exist": Nsp(path=(str(latin), str(tmp_path / "none"))),
        "`path` is empty": Nsp(path=()),
        "not a text encoding": Nsp(path=str(latin), encoding="klingon"),
        "exchange them": Nsp(path=str(latin), min_words=5, max_words=4),
    }
    for message, source in faults.items():
        assert [message in problem for problem in source.check()] == [True], message


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("ids", [["a", "a", "a", "b", "c", "c"], [7, 7, 7, 1, 2, 2]])
def test_rows_of_a_table_with_the_same_id_are_a_document(tmp_path, suffix, ids):
    file = table_file(tmp_path / f"a.{suffix}", {"book": ids, "text": list("123456")})
    source = Nsp(path=file, document="book")
    assert list(source.check()) == []
    assert pairs(source.open()) == [("1", "2"), ("2", "3"), ("5", "6")]


def test_a_table_of_sentences_without_ids_is_one_document_as_a_file_is(put, tmp_path):
    tables = tuple(
        table_file(tmp_path / name, {"text": ["1", "2", "3"]})
        for name in ("a.csv", "b.parquet")
    )
    text = put("c.txt", "1\n2\n3\n")
    expected = [("1", "2"), ("2", "3")]
    assert pairs(Nsp(path=(*tables, text)).open()) == expected * 3


def test_a_row_of_prose_is_a_document_or_with_ids_a_passage_of_one(
    tmp_path,
):
    prose = ["He left. She\nstayed.\n\nA heading\r\n\r\nIt rained.", "They came back."]
    sentences = [
        "He left.",
        "She stayed.",
        "A heading",
        "It rained.",
        "They came back.",
    ]
    file = table_file(tmp_path / "a.jsonl", {"text": prose, "book": [1, 1]})
    assert pairs(Nsp(path=file, format="text").open()) == list(pairwise(sentences[:-1]))
    assert pairs(Nsp(path=file, format="text", document="book").open()) == list(
        pairwise(sentences)
    )


# datasets 3 leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_data_set_of_the_hub_gives_dropout_and_nsp_the_same_sentences(
    tmp_path, monkeypatch
):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    sentences = [f"sentence {n}" for n in range(3000)]
    table_file(tmp_path / "set" / "train.csv", {"text": sentences})
    location = f"hub:{tmp_path / 'set'}"
    source = Nsp(path=location, limit=2000)
    assert list(source.check()) == []
    assert pairs(source.open()) == list(pairwise(sentences))[:2000]
    repeated = Dropout(path=location, limit=2000).open().rows(range(2000))
    assert list(repeated["anchor"]) == sentences[:2000]


def test_nsp_is_fetched_where_one_of_its_locations_is():
    assert Nsp(path=("a.txt", "hub:nobody/nothing")).fetches
    assert not Nsp(path=("a.txt", "b.csv")).fetches


def test_a_table_without_header_has_the_text_and_then_the_document(put):
    source = Nsp(path=put("a.csv", "1,x\n2,x\n3,y\n4,y\n"), document="d", header=False)
    assert list(source.check()) == []
    assert pairs(source.open()) == [("1", "2"), ("3", "4")]


def test_a_document_that_begins_again_is_refused(tmp_path):
    file = table_file(
        tmp_path / "a.csv", {"book": ["x", "y", "y", "x"], "text": list("1234")}
    )
    with pytest.raises(
        DataError,
        match=r"row 4 of the data, column `book`: the document 'x' begins again",
    ):
        Nsp(path=file, document="book").open()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"book": [1, 1.5], "text": ["1", "2"]}, "column `book`: found 1.5"),
        ({"book": [1, True], "text": ["1", "2"]}, "column `book`: found True"),
        ({"book": [1, 1], "text": ["1", 2]}, "column `text`: found 2"),
        ({"book": [1, 1], "text": ["1", " "]}, "the text is empty"),
        (
            {"page": [1, 1], "text": ["1", "2"]},
            "no column `book`; found `page`, `text`",
        ),
    ],
)
def test_a_table_is_read_strictly(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        Nsp(path=table_file(tmp_path / "a.jsonl", rows), document="book").open()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"document": "book"}, "remove `document`"),
        (
            {"header": False},
            "`header = false` is for CSV and TSV files, and .* are none",
        ),
        ({"split": "test"}, "`split` is for a `hub:` data set, and .* are files"),
    ],
)
def test_options_of_tables_are_refused_for_text_files(put, fields, message):
    (problem,) = Nsp(
        path=(put("a.txt", "1\n2\n"), put("b.txt", "3\n4\n")), **fields
    ).check()
    assert re.search(message, problem)


def test_the_fingerprint_is_that_of_the_rows(put):
    path = put("a.txt", "One two.\nTwo.\nThree four.\nFive six.\n")
    sources = [Nsp(path=path), Nsp(path=path, limit=2), Nsp(path=path, min_words=2)]
    assert len({source.open().fingerprint for source in sources}) == 3


def test_the_books_give_a_row_for_each_line_but_the_last(
    real,
):
    books = {"alice_in_wonderland": 1430, "frankenstein": 3356, "great_gatsby": 3377}
    paths = tuple(real(f"narrative/books/{book}.sent.txt") for book in books)
    for path, lines in zip(paths, books.values(), strict=True):
        assert len(Nsp(path=path).open()) == lines - 1
    table = Nsp(path=paths).open()
    assert len(table) == sum(books.values()) - 3
    rows = table.rows(range(1428))
    assert rows["anchor"][1:] == rows["positive"][:-1]


def test_joined_lines_of_a_book_are_found_again(real, put):
    from sentbed import locate

    lines = (
        locate(real("narrative/books/frankenstein.sent.txt")).read_text().splitlines()
    )
    table = Nsp(path=put("prose.txt", "\n".join(lines)), format="text").open()
    joined = {table.rows([0])["anchor"][0], *table.rows(range(len(table)))["positive"]}
    # The lines were found by other rules, so a few differ.
    assert len(joined & set(lines)) > 0.9 * len(set(lines))
