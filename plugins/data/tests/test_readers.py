from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sentbed import DataError
from sentbed_data.readers import read_lines

quick = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_columns_come_in_the_order_asked_for_and_one_may_be_asked_for_twice(
    put,
    read_columns,
):
    csv_file = put("a.csv", "x,y,z\n1,2,3\n")
    jsonl_file = put("a.jsonl", '{"x": "1", "y": "2", "z": 3}\n')
    assert read_columns(csv_file, ["z", "x", "z"]) == [["3"], ["1"], ["3"]]
    assert read_columns(jsonl_file, ["y", "x", "y"]) == [["2"], ["1"], ["2"]]


def test_text_lines_skip_blank_ones_and_keep_outer_blanks(put):
    file = put("a.txt", "\n one \n  \ntwo\r\n\r\nthree")
    assert list(read_lines(file)) == [" one ", "two", "three"]
    assert list(read_lines(file, limit=2)) == [" one ", "two"]


def test_limit_reads_no_further_than_it_must(put, read_columns):
    file = put("a.csv", "x\n1\n2\n3,too many\n")
    assert read_columns(file, ["x"], limit=2) == [["1", "2"]]
    with pytest.raises(DataError, match="2 field"):
        read_columns(file, ["x"], limit=3)


def test_package_and_data_locations_are_resolved(
    put, tmp_path, monkeypatch, read_columns
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    put("a.csv", "x\n1\n")
    assert read_columns("data:a.csv", ["x"]) == [["1"]]
    assert (
        len(read_columns("pkg:sentbed_data/sample/triplets.csv", ["sent0"], limit=3)[0])
        == 3
    )


@quick
@given(
    content=st.binary(max_size=60),
    name=st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow"]),
)
def test_any_bytes_are_read_or_refused_with_the_file_named(
    put, content, name, read_columns
):
    file = put(name, content)
    refusal, columns = "", [["refused"]]
    try:
        columns = read_columns(file, ["x"], header=False)
    except DataError as error:
        refusal = str(error)
    assert f"@ {file}" in refusal or (not refusal and columns[0])
    assert all(text.strip() for text in columns[0])


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", ""), ("a.csv", "x,y\n"), ("a.tsv", "x\ty\n"), ("a.jsonl", "")],
)
def test_a_file_without_rows_is_refused(put, name, content, read_columns):
    file = put(name, content)
    with pytest.raises(DataError, match="no rows of data") as fault:
        read_columns(file, ["x", "y"])
    assert str(fault.value).endswith(f"@ {file}")


def test_blank_text_files_are_refused(put):
    with pytest.raises(DataError, match="no text"):
        list(read_lines(put("a.txt", "\n \n")))


@pytest.mark.parametrize("name", ["a.xlsx", "a.txt", "a"])
def test_a_suffix_without_reader_is_refused(put, name, read_columns):
    with pytest.raises(
        DataError,
        match=r"expected one of `\.arrow`, `\.csv`, `\.jsonl`, `\.parquet`, `\.tsv`, or `hub:ID`",
    ):
        read_columns(put(name, "x\n1\n"), ["x"])


def test_a_directory_and_a_missing_file_are_refused(tmp_path, read_columns):
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match="this is a directory"):
        read_columns(str(tmp_path / "a.csv"), ["x"])
    with pytest.raises(DataError, match="does not exist"):
        read_columns(str(tmp_path / "b.csv"), ["x"])
