from __future__ import annotations

import sys

import pytest
from sentbed import DataError
from sentbed_data.dropout import Dropout
from sentbed_data.pairs import Pairs
from sentbed_data.triplets import Triplets


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("sent0,sent1,hard_neg\n1,2,3\n")
    return str(path)


def test_a_sound_source_has_no_problems(file):
    assert list(Triplets(path=file).check()) == []
    assert (
        list(Triplets(path=file, header=False, encoding="latin-1", limit=1).check())
        == []
    )
    assert (
        list(
            Triplets(path="hub:some/set", config="a", split="dev", revision="b").check()
        )
        == []
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "/no/such/file.csv"}, "`/no/such/file.csv` does not exist"),
        ({"path": "/no/such/file.xlsx"}, "has the suffix '.xlsx'"),
        ({"path": "/no/such/file.txt"}, "has the suffix '.txt'"),
        ({"encoding": "utf-16"}, "convert the file to UTF-8"),
        ({"config": "a"}, "remove `config`"),
        ({"split": "test"}, "remove `split`"),
        ({"revision": "a"}, "remove `revision`"),
        ({"path": "hub:some/set", "header": False}, "remove `header`"),
        ({"path": "hub:some/set", "encoding": "latin-1"}, "remove `encoding`"),
        (
            {"path": "hub:some/set", "stream": True},
            "save it as Parquet and name that file",
        ),
    ],
)
def test_a_problem_shows_before_the_data_is_read(file, settings, message):
    (problem,) = Triplets(**{"path": file, **settings}).check()
    assert message in problem


def test_utf_8_in_another_spelling_is_no_problem():
    assert list(Triplets(path="hub:some/set", encoding="UTF8").check()) == []


def test_a_directory_is_a_problem(tmp_path):
    (tmp_path / "a.csv").mkdir()
    (problem,) = Triplets(path=str(tmp_path / "a.csv")).check()
    assert "this is a directory" in problem


def test_a_missing_library_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    (problem,) = Dropout(path="hub:some/set").check()
    assert "sentbed-data[hub]" in problem


def test_a_stream_without_its_library_is_a_problem(file, monkeypatch):
    assert list(Triplets(path=file, stream=True).check()) == []
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (problem,) = Triplets(path=file, stream=True).check()
    assert "sentbed-data[arrow]" in problem


def test_limit_is_at_least_one(file):
    with pytest.raises(ValueError, match="limit"):
        Triplets(path=file, limit=0)


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        (
            "a.tsv",
            "question\tanswer\nx\ty\n",
            "there is no column `anchor`; found `question`, `answer`",
        ),
        ("a.csv", "anchor,answer\nx,y\n", "there is no column `positive`"),
        (
            "a.jsonl",
            '{"anchor": "x"}\n{"anchor": "x", "positive": "y"}\n',
            "`positive`",
        ),
    ],
)
def test_a_column_that_is_missing_is_found_by_check(tmp_path, name, content, fault):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    (problem,) = Pairs(path=str(path)).check()
    assert fault in problem
    assert problem.endswith(f"@ {path}:1")


def test_check_reads_no_more_than_the_first_row(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text("anchor\tpositive\nx\ty\nonly one field\n", encoding="utf-8")
    source = Pairs(path=str(path))
    assert list(source.check()) == []
    with pytest.raises(DataError, match="1 field"):
        source.open()


@pytest.mark.parametrize("stream", [False, True])
def test_rows_with_a_blank_text_can_be_left_out(tmp_path, monkeypatch, stream):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.csv"
    path.write_text("anchor,positive\na,b\n,c\nd, \ne,f\n")
    with pytest.raises(DataError, match=r'`blank = "leave-out"`.*a\.csv:3$'):
        Pairs(path=str(path), stream=stream).open()
    table = Pairs(path=str(path), stream=stream, blank="leave-out").open()
    assert table.rows([0, 1]) == {"anchor": ["a", "e"], "positive": ["b", "f"]}
    assert (len(table), dict(table.left_out)) == (2, {"rows with a blank text": 2})


def test_a_null_is_a_blank_text_and_a_number_is_an_error(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"anchor": null, "positive": "b"}\n{"anchor": 3, "positive": "b"}\n'
    )
    with pytest.raises(DataError, match=r"found 3 \(int\).*a\.jsonl:2$"):
        Pairs(path=str(path), blank="leave-out").open()


def test_rows_with_a_null_of_a_streamed_arrow_file_are_left_out(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "a.arrow"
    table = pyarrow.table({"anchor": ["a", None, "e"], "positive": ["b", "c", "f"]})
    with pyarrow.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)
    source = Pairs(path=str(path), stream=True, blank="leave-out")
    assert list(source.open().texts(["anchor"])) == ["a", "e"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("anchor;positive", "';' seems to separate the fields; write it as .csv"),
        ("a cat,a dog", "or set `header = false` if the first line is a row"),
    ],
)
def test_a_first_line_without_the_columns_says_why(tmp_path, header, message):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n")
    (problem,) = Pairs(path=str(path)).check()
    assert message in problem
