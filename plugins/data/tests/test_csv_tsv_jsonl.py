from __future__ import annotations

import csv
import io
import json

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sentbed import DataError
from sentbed_common import LONGEST_LINE
from sentbed_data.dropout import Dropout
from sentbed_data.readers import read_lines

signs = st.characters(blacklist_categories=("Cs",), blacklist_characters="\0")
texts = st.text(signs, min_size=1).filter(lambda text: not text.isspace())
quick = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_csv_follows_rfc_quoting(put, read_columns):
    file = put("a.csv", 'x,y\r\n"one, ""two""","three\nfour"\r\nfive,six\r\n')
    assert read_columns(file, ["x", "y"]) == [
        ['one, "two"', "five"],
        ["three\nfour", "six"],
    ]


def test_csv_may_have_texts_as_long_as_other_formats(put, read_columns):
    text = "x" * LONGEST_LINE
    assert read_columns(put("a.csv", f"x\n{text}"), ["x"]) == [[text]]


def test_tsv_keeps_bare_quotes_and_commas(put, read_columns):
    file = put("a.tsv", 'x\ty\n"one\ttwo" "three\na, b\tc"\n')
    assert read_columns(file, ["x", "y"]) == [['"one', "a, b"], ['two" "three', 'c"']]


@pytest.mark.parametrize(("name", "mark"), [("a.csv", ","), ("a.tsv", "\t")])
def test_a_file_without_header_has_the_wanted_fields_in_order(
    put, name, mark, read_columns
):
    file = put(name, f"1{mark}2\n3{mark}4\n")
    assert read_columns(file, ["x", "y"], header=False) == [["1", "3"], ["2", "4"]]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
def test_lines_end_only_at_newlines(put, name, read_columns):
    text = "one\x85two\u2028three\x0bfour\x1cfive"
    content = {
        "a.csv": f"x\n{text}\n",
        "a.tsv": f"x\r\n{text}\r\n",
        "a.jsonl": json.dumps({"x": text}, ensure_ascii=False),
        "a.txt": f"{text}\r\n",
    }[name]
    file = put(name, content)
    assert (
        list(read_lines(file)) if name == "a.txt" else read_columns(file, ["x"])[0]
    ) == [text]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(put, name, read_columns):
    content = '{"x": "é"}\n' if name == "a.jsonl" else "x\né\n"
    assert read_columns(put(name, b"\xef\xbb\xbf" + content.encode()), ["x"]) == [["é"]]


def test_another_encoding_is_read_where_it_is_named(put):
    assert list(
        read_lines(put("a.txt", "café\n".encode("latin-1")), encoding="latin-1")
    ) == ["café"]
    assert list(
        read_lines(put("b.txt", "你好\n".encode("gb18030")), encoding="gb18030")
    ) == ["你好"]


@quick
@given(rows=st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_csv_gives_back_what_the_csv_module_wrote(put, rows, read_columns):
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("x", "y"), *rows])
    file = put("a.csv", stream.getvalue())
    assert read_columns(file, ["x", "y"]) == [
        list(column) for column in zip(*rows, strict=True)
    ]


@quick
@given(rows=st.lists(texts, min_size=1, max_size=5), ascii_only=st.booleans())
def test_jsonl_gives_back_what_the_json_module_wrote(
    put, rows, ascii_only, read_columns
):
    lines = (json.dumps({"x": text}, ensure_ascii=ascii_only) + "\n" for text in rows)
    assert read_columns(put("a.jsonl", "".join(lines)), ["x"]) == [rows]


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        (
            "a.csv",
            "x,y\n1,2\n3\n",
            3,
            "the row has 1 field(s); expected 2, as the header has",
        ),
        ("a.csv", "x,y\n1,2,3\n", 2, "the row has 3 field(s); expected 2"),
        ("a.csv", 'x,y\n"1\n1",2\n3\n', 4, "the row has 1 field(s)"),
        ("a.csv", 'x,y\n1,2\n3,"4\n5,6\n', 3, "not valid CSV"),
        ("a.csv", 'x,y\n"1"1,2\n', 2, "not valid CSV"),
        ("a.csv", "x,y\n1,2\n\n", 3, "the line is blank"),
        ("a.csv", "x,y\n1,2\n3,\n", 3, "column `y`: the text is empty"),
        ("a.csv", 'x,y\n" ",2\n', 2, "column `x`: the text is empty"),
        ("a.csv", "X,y\n1,2\n", 1, "no column `x`; found `X`, `y`"),
        ("a.csv", "x,y,x\n1,2,3\n", 1, "there are 2 columns `x`"),
        ("a.csv", "\nx,y\n1,2\n", 1, "no column `x`; found no columns"),
        (
            "a.csv",
            "x,y\n1,2\n3\r4,5\n",
            3,
            "(new-line character seen in unquoted field);",
        ),
        ("a.tsv", "\nx\ty\n1\t2\n", 1, "no column `x`"),
        ("a.tsv", "x\ty\n1\t2\t3\n", 2, "the row has 3 field(s); expected 2"),
        ("a.tsv", "x\ty\n1\t2\n3\n", 3, "the row has 1 field(s)"),
        ("a.tsv", "x\ty\n1\t2\n\n4\t5\n", 3, "the line is blank"),
        ("a.tsv", "x\ty\n1\t2\n \t2\n", 3, "column `x`: the text is empty"),
        ("a.jsonl", '{"x": "1", "y": "2"}\n{"x": "1", "y": \n', 2, "not valid JSON"),
        ("a.jsonl", '{"x": "1", "y": "2"}\n\n', 2, "not valid JSON"),
        ("a.jsonl", '["1", "2"]\n', 1, "holds a JSON list; expected an object"),
        ("a.jsonl", '{"x": "1", "why": "2"}\n', 1, "no column `y`; found `x`, `why`"),
        (
            "a.jsonl",
            '{"x": "1", "y": "2"}\n{"x": 1, "y": "2"}\n',
            2,
            "column `x`: found 1 (int)",
        ),
        ("a.jsonl", '{"x": "1", "y": null}\n', 1, "column `y`: found None"),
        ("a.jsonl", '{"x": "1", "y": "\\ud800"}\n', 1, "half of a surrogate pair"),
    ],
)
def test_a_fault_names_file_and_line(put, name, content, line, message, read_columns):
    file = put(name, content)
    with pytest.raises(DataError) as fault:
        read_columns(file, ["x", "y"])
    assert message in str(fault.value)
    assert str(fault.value).endswith(f"@ {file}:{line}")


def test_a_headerless_file_with_other_fields_is_refused(put, read_columns):
    file = put("a.tsv", "1\t2\n")
    with pytest.raises(
        DataError, match="expected 3, `x`, `y`, `z`, as there is no header"
    ):
        read_columns(file, ["x", "y", "z"], header=False)


def test_a_missing_column_is_suggested(put, read_columns):
    file = put("a.csv", "sentence1,sentence2\n1,2\n")
    with pytest.raises(DataError, match="did you mean `sentence1`"):
        read_columns(file, ["sentense1"])


@pytest.mark.parametrize(
    ("name", "line"), [("a.csv", 3), ("a.tsv", 3), ("a.jsonl", 3), ("a.txt", 3)]
)
def test_a_wrong_byte_names_file_line_and_byte(put, name, line, read_columns):
    start = {"a.jsonl": b'{"x": "a"}\n{"x": "b"}\n'}.get(name, b"x\na\n")
    file = put(name, start + b"caf\xe9\n")
    with pytest.raises(DataError) as fault:
        list(read_lines(file)) if name == "a.txt" else read_columns(file, ["x"])
    assert "byte 0xe9 (number 4 of the line) is not utf-8" in str(fault.value)
    assert 'encoding = "latin-1"' in str(fault.value)
    assert str(fault.value).endswith(f"@ {file}:{line}")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "punycode"])
def test_an_encoding_with_wide_newlines_is_refused(put, encoding):
    with pytest.raises(DataError, match="convert the file to UTF-8"):
        list(read_lines(put("a.txt", "a\n"), encoding=encoding))


@pytest.mark.parametrize("encoding", ["utf8x", "hex"])
def test_an_unknown_encoding_is_refused(put, encoding):
    with pytest.raises(DataError, match="not a text encoding"):
        list(read_lines(put("a.txt", "a\n"), encoding=encoding))


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("before", [0, 5000])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
def test_a_nul_is_no_text(put, name, before, encoding):
    row = '{"x": "fine"}\n' if name == "a.jsonl" else "fine\n"
    head = "x\n" if name in ("a.csv", "a.tsv") else ""
    file = put(name, head + row * before + "ab\0c\n" + row)
    line = before + 1 + bool(head)
    source = Dropout(
        path=file, column="" if name == "a.txt" else "x", encoding=encoding
    )
    with pytest.raises(
        DataError,
        match=rf"byte 3 of the line is NUL, which is in no text; .*{name}:{line}$",
    ):
        source.open()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_utf_16_without_a_mark_is_not_read_as_utf_8(put, encoding):
    with pytest.raises(
        DataError,
        match=r"(in UTF-16|is NUL).* convert .*a\.txt:1$",
    ):
        list(read_lines(put("a.txt", "one\ntwo\n".encode(encoding))))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet", "arrow"])
def test_a_nul_that_the_format_allows_is_no_text_either(
    put, tmp_path, suffix, read_columns
):
    path, table = tmp_path / f"a.{suffix}", pyarrow.table({"x": ["fine", "a\0b"]})
    if suffix == "jsonl":
        put(path.name, '{"x": "fine"}\n{"x": "a\\u0000b"}\n')
    elif suffix == "parquet":
        parquet.write_table(table, path)
    else:
        with pyarrow.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    for read in (read_columns, *([streamed] if suffix == "arrow" else [])):
        with pytest.raises(
            DataError,
            match=r"column `x`: the text 'a\\x00b' has a NUL byte, which is in no text",
        ):
            read(str(path), ["x"])


def streamed(location, names):
    return Dropout(path=location, column=names[0], stream=True).open()


def test_an_overlong_text_of_a_parquet_file_is_an_error_with_its_row(put, read_columns):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    file = put("a.parquet", "")
    parquet.write_table(pa.table({"x": ["one", "y" * (LONGEST_LINE + 1)]}), file)
    with pytest.raises(
        DataError,
        match=r"row 2, column `x`: the text has 1,048,577 characters.*a\.parquet$",
    ):
        read_columns(file, ["x"])


def test_a_message_lists_the_first_names_of_many_columns(put, read_columns):
    names = [f"n{number}" for number in range(80_000)]
    file = put("a.jsonl", json.dumps(dict.fromkeys(names, 1), separators=(",", ":")))
    with pytest.raises(DataError) as caught:
        read_columns(file, ["sentence"])
    listed = ", ".join(f"`{name}`" for name in names[:20])
    assert str(caught.value) == (
        f"there is no column `sentence`; found {listed}, and 79,980 more; "
        f"name the columns of the file in the recipe @ {file}:1"
    )


def test_a_message_shows_the_beginning_of_a_long_name(put, read_columns):
    file = put("a.jsonl", json.dumps({"y" * 1_000: "z"}))
    with pytest.raises(DataError, match=f"; found `{'y' * 100}...`; name the columns"):
        read_columns(file, ["sentence"])
