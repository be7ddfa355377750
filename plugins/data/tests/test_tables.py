from __future__ import annotations

import csv
import gzip
import io
import json

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sentbed import DataError
from sentbed_common import TABLES, TableLayout, local_file, table_rows

TEXTS = ["NA", "null", 'a "quote"', "one, two", " kept ", "x\x85y\u2028z", "猫", "1e3"]
"""Texts that readers of tables like to take for something else."""


def write_table(path, columns):
    """Write a table in the format of the file's suffix, and return its path."""
    rows = list(zip(*columns.values(), strict=True))
    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
    elif path.suffix == ".arrow":
        table = pyarrow.table(columns)
        with pyarrow.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=3)
    elif path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".tsv":
        lines = ["\t".join(row) for row in [tuple(columns), *rows]]
        path.write_bytes("\r\n".join(lines).encode())
    else:
        stream = io.StringIO(newline="")
        csv.writer(stream).writerows([tuple(columns), *rows])
        path.write_bytes(b"\xef\xbb\xbf" + stream.getvalue().encode())

    return str(path)


def read(location, columns=("x",), **layout):
    return [
        values for _, values in table_rows(location, columns, TableLayout(**layout))
    ]


@pytest.mark.parametrize("suffix", TABLES)
def test_every_format_gives_the_same_texts_as_they_are(suffix, tmp_path):
    columns = {"id": list("12345678"), "x": TEXTS, "y": TEXTS[::-1]}
    path = write_table(tmp_path / f"a{suffix}", columns)

    rows = list(table_rows(path, ["y", "x", "y"]))

    expected = zip(TEXTS[::-1], TEXTS, TEXTS[::-1], strict=True)
    assert [values for _, values in rows] == list(map(list, expected))
    first = 1
    if suffix in (".csv", ".tsv"):
        first = 2

    assert [number for number, _ in rows] == list(range(first, first + 8))


def test_a_column_may_have_one_of_several_usual_names(put):
    path = put("a.tsv", "Label\tPremise\n0\ta\n")
    assert read(path, [("sentence1", "premise"), "Label"]) == [["a", "0"]]
    with pytest.raises(DataError, match="found no column `sentence1`"):
        read(path, [("sentence1", "text")])


def test_positions_name_the_columns_of_a_file_without_header(put):
    path = put("a.txt", "a||b||1\nc||d||2||more\n")
    layout = {"header": False, "separator": "||"}
    rows = read(path, ["2", "0"], further_fields=True, **layout)
    assert rows == [["1", "a"], ["2", "c"]]
    with pytest.raises(DataError, match=r"4 field\(s\); expected 3.*:2$"):
        read(path, ["2", "0"], **layout)
    with pytest.raises(DataError, match=r"3 field\(s\); expected 4.*:1$"):
        read(path, ["3"], **layout)
    with pytest.raises(DataError, match="'x' is no position"):
        read(put("a.csv", "1,2\n"), header=False)


def test_a_text_file_has_a_text_in_each_line_that_is_not_blank(put):
    path = put("a.txt", "\n one \n  \ntwo\r\n\r\nthree")
    assert list(table_rows(path, ["any"])) == [
        (2, [" one "]),
        (4, ["two"]),
        (6, ["three"]),
    ]


def test_a_compressed_file_is_read_like_its_content(put):
    assert read(put("a.csv.gz", gzip.compress(b"x,y\na,b\n")), ["y"]) == [["b"]]
    whole = gzip.compress(b"x\n" + bytes(range(32, 127)) * 40)
    with pytest.raises(DataError, match="damaged or cut short"):
        read(put("half.csv.gz", whole[: len(whole) // 2]))


def test_both_formats_of_arrow_and_other_kinds_of_strings_are_read(tmp_path):
    table = pyarrow.table({"x": pyarrow.array(["a", "b", "a"])})
    table = table.append_column("y", table["x"].dictionary_encode())
    table = table.append_column("z", table["x"].cast(pyarrow.large_string()))
    for kind in ("new_file", "new_stream"):
        path = str(tmp_path / f"{kind}.arrow")
        with getattr(pyarrow.ipc, kind)(path, table.schema) as writer:
            writer.write_table(table)

        assert read(path, ["x", "y", "z"]) == [["a"] * 3, ["b"] * 3, ["a"] * 3]


@pytest.mark.parametrize("encoding", ["latin-1", "gb18030", "utf-8"])
def test_another_encoding_is_read_if_it_is_named(put, encoding):
    path = put("a.csv", "x\nCafé\n".encode(encoding))
    assert read(path, encoding=encoding) == [["Café"]]


DAMAGED = {
    "short row": ("a.csv", "x,y\n1,2\n3\n", r"1 field\(s\); expected 2.*:3$"),
    "long row": ("a.csv", "x,y\n1,2,3\n", r"3 field\(s\); expected 2.*:2$"),
    "row of two lines": ("a.csv", 'x,y\n"1\n1",2\n3\n', r"1 field\(s\).*:4$"),
    "open quote": ("a.csv", 'x,y\n1,2\n3,"4\n5,6\n', "not valid CSV.*:3$"),
    "text after quote": ("a.csv", 'x,y\n"1"1,2\n', "not valid CSV.*:2$"),
    "old line end": ("a.csv", "x,y\n3\r4,5\n", "not valid CSV.*:2$"),
    "blank line": ("a.csv", "x,y\n1,2\n\n3,4\n", "the line is blank.*:3$"),
    "other case": ("a.csv", "X,y\n1,2\n", "no column `x`.*:1$"),
    "near name": ("a.csv", "text,y\n1,2\n", "no column `x`.*Choose.*`text`.*:1$"),
    "twice": ("a.csv", "x,y,x\n1,2,3\n", "found 2 column `x`.*:1$"),
    "blank header": ("a.csv", "\nx,y\n1,2\n", "no column `x`.*:1$"),
    "other separator": ("a.csv", "x;y\n1;2\n", "no column `x`.*`x;y`.*:1$"),
    "empty": ("a.csv", "", "no column `x`"),
    "header only": ("a.csv", "x,y\n", "no rows of data"),
    "tab in text": ("a.tsv", "x\ty\n1\t2\t3\n", r"3 field\(s\).*:2$"),
    "no tab": ("a.tsv", "x\ty\n1 2\n", r"1 field\(s\).*:2$"),
    "tsv blank line": ("a.tsv", "x\ty\n\n1\t2\n", "the line is blank.*:2$"),
    "tsv header": ("a.tsv", "x y\n1\t2\n", "no column `x`.*:1$"),
    "cut object": ("a.jsonl", '{"x": 1, "y": 2}\n{"x": 1,', "not valid JSON.*:2$"),
    "no object": ("a.jsonl", '["1", "2"]\n', "holds a JSON list.*:1$"),
    "json text": ("a.jsonl", "x,y\n1,2\n", "not valid JSON.*:1$"),
    "no key": ("a.jsonl", '{"x": 1, "y": 2}\n{"x": 1}\n', "no column `y`.*:2$"),
    "deep": ("a.jsonl", "[" * 99_999, "not valid JSON.*:1$"),
    "half a surrogate": (
        "a.jsonl",
        '{"x": "\\ud83d", "y": 1}\n',
        "not valid JSON.*surrog.*:1$",
    ),
    "escaped NUL": ("a.jsonl", '{"x": "a\\u0000", "y": 1}\n', "NUL.*:1$"),
    "no json": ("a.jsonl", "", "no rows of data"),
    "NUL": ("a.csv", "x,y\n1,2\0\n", "NUL.*:2$"),
    "latin-1": ("a.csv", b"x,y\ncaf\xe9,2\n", r"byte 0xe9 \(number 4 .*:2$"),
    "utf-16": (
        "a.csv",
        "x,y\n1,2\n".encode("utf-16"),
        "the file is in UTF-16, expected utf-8; ",
    ),
    "utf-16-le": ("a.csv", "x,y\n1,2\n".encode("utf-16-le"), "NUL.*:1$"),
    "utf-32-be": ("a.tsv", "x\ty\n".encode("utf-32-be"), "NUL.*:1$"),
    "cut utf-8": ("a.tsv", b"x\ty\n1\t\xe7\x8c", "is not utf-8.*:2$"),
    "no gzip": ("a.csv.gz", "x,y\n1,2\n", "damaged or cut short"),
    "no parquet": ("a.parquet", "x,y\n", "cannot be read as Parquet"),
    "empty parquet": ("a.parquet", "", "cannot be read as Parquet"),
    "no arrow": ("a.arrow", "x,y\n1,2\n", "cannot be read as Arrow"),
    "cut arrow": ("a.arrow", "ARROW1\0\0", "cannot be read as Arrow"),
    "other suffix": ("a.xlsx", "x,y\n", "suffix '.xlsx'; expected one of"),
    "lines for columns": ("a.txt", "1\n", "suffix '.txt'; expected one of"),
    "no suffix": ("a", "x,y\n1,2\n", "suffix ''; expected one of"),
}
"""Name, content, and what the refusal says."""


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_refused_in_one_sentence(put, case):
    name, content, message = DAMAGED[case]
    path = put(name, content)
    with pytest.raises(DataError, match=message) as refusal:
        read(path, ["x", "y"])

    assert path in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_column_of_a_binary_table_is_refused(tmp_path):
    for suffix in (".parquet", ".arrow"):
        path = write_table(tmp_path / f"a{suffix}", {"text": ["a"]})
        with pytest.raises(DataError, match=r"no column `texts`.*mean `text`"):
            read(path, ["texts"])


def test_locations_of_no_file_and_unknown_encodings_are_refused(put, tmp_path):
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(DataError, match="this is a directory"):
        read(str(tmp_path / "b.csv"))

    with pytest.raises(DataError, match="does not exist"):
        local_file(str(tmp_path / "c.csv"))

    for encoding in ("klingon", "hex", "punycode"):
        with pytest.raises(DataError, match=rf"'{encoding}'` reads no text|is not "):
            read(put("a.csv", b"x\n\xff\n"), encoding=encoding)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=60) | st.text('x,"\t\n\r {}:', max_size=40),
    suffix=st.sampled_from(TABLES),
)
def test_any_bytes_are_read_or_refused_with_the_file_named(put, content, suffix):
    path = put(f"a{suffix}", content)
    refusal = path
    rows = [["refused"]]
    try:
        rows = read(path)
    except DataError as error:
        refusal = str(error)

    assert path in refusal
    assert rows


characters = st.characters(blacklist_categories=("Cs",), blacklist_characters="\0")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(characters, min_size=1), min_size=1, max_size=5))
def test_csv_gives_back_what_the_csv_module_wrote(put, texts):
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("x", "y"), *((text, "") for text in texts)])
    assert read(put("a.csv", stream.getvalue())) == [[text] for text in texts]


@pytest.fixture
def hub_directory(put, tmp_path, monkeypatch):
    """A directory with the layout of a data set of the hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    directory = tmp_path / "set"
    directory.mkdir()
    (directory / "train.csv").write_text('x,y\n"a, b",c\nd,e\n')
    (directory / "test.csv").write_text("x,y\nf,g\n")
    return directory


# datasets 3 leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_data_set_of_the_hub_is_read_by_its_split(hub_directory):
    location = f"hub:{hub_directory}"
    assert read(location, ["y", "x"]) == [["c", "a, b"], ["e", "d"]]
    assert read(location, split="test") == [["f"]]
    with pytest.raises(DataError, match=r"no column `z`.*`x`, `y`.* @ hub:"):
        read(location, ["z"])

    with pytest.raises(
        DataError, match=r'the hub gives no dataset .*Unknown split "b"'
    ):
        read(location, split="b")


def test_what_follows_an_id_of_the_hub_is_a_file(put, monkeypatch):
    import huggingface_hub

    def download(repository, file, repo_type, revision):
        assert (repository, file, repo_type) == ("acme/set", "data/a.csv", "dataset")
        if revision == "v2":
            raise FileNotFoundError("No such revision")

        return put("downloaded.csv", "x\na\n")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert read("hub:acme/set/data/a.csv", revision="v1") == [["a"]]
    with pytest.raises(DataError, match="`acme/set` at revision `v2`: No such"):
        read("hub:acme/set/data/a.csv", revision="v2")
