from __future__ import annotations

import sys

import pytest
from sentbed import DataError
from sentbed_data import parquet_arrow
from sentbed_data.parquet_arrow import require_package


def test_parquet_is_read_over_several_row_groups(tmp_path, read_columns):
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(
        {"n": [1, 2, 3], "x": ["a", "b", "c"], "y": pyarrow.array(["d", "e", "d"])}
    )
    table = table.set_column(2, "y", table["y"].dictionary_encode())
    file = str(tmp_path / "a.parquet")
    parquet.write_table(table, file, row_group_size=2)
    assert read_columns(file, ["y", "x"]) == [["d", "e", "d"], ["a", "b", "c"]]
    assert read_columns(file, ["x"], limit=1) == [["a"]]
    with pytest.raises(DataError, match=r"row 1, column `n`: found 1 \(int\)"):
        read_columns(file, ["n"])
    with pytest.raises(DataError, match="no column `z`; found `n`, `x`, `y`"):
        read_columns(file, ["z"])


def test_parquet_without_a_value_names_the_row(tmp_path, read_columns):
    import pyarrow
    from pyarrow import parquet

    file = str(tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"x": ["a", "b", None]}), file, row_group_size=1)
    with pytest.raises(DataError, match="row 3, column `x`: found None"):
        read_columns(file, ["x"])


@pytest.mark.parametrize("kind", ["new_file", "new_stream"])
def test_both_formats_of_arrow_are_read(tmp_path, kind, read_columns):
    import pyarrow

    table = pyarrow.table({"n": [1, 2, 3], "x": ["a", "b", "c"], "y": ["d", "e", None]})
    table = table.set_column(1, "x", table["x"].dictionary_encode())
    file = str(tmp_path / "a.arrow")
    with getattr(pyarrow.ipc, kind)(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert read_columns(file, ["y", "x"], limit=2) == [["d", "e"], ["a", "b"]]
    with pytest.raises(DataError, match="row 3, column `y`: found None"):
        read_columns(file, ["y"])
    with pytest.raises(DataError, match="no column `z`; found `n`, `x`, `y`"):
        read_columns(file, ["z"])


@pytest.fixture
def hub_directory(put, tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    directory = tmp_path / "set"
    directory.mkdir()
    put("set/train.csv", 'x,y\n"a, b",c\nd,e\n')
    put("set/test.csv", "x,y\nf,g\n")
    return directory


# datasets 3 leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_hub_reads_the_split_of_a_local_directory(hub_directory, read_columns):
    location = f"hub:{hub_directory}"
    assert read_columns(location, ["y", "x"]) == [["c", "e"], ["a, b", "d"]]
    assert read_columns(location, ["x"], split="test", limit=5) == [["f"]]
    with pytest.raises(DataError, match="no column `z`; found `x`, `y`") as fault:
        read_columns(location, ["z"])
    assert str(fault.value).endswith(f"@ {location}")


# datasets 3 leaves a file to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_hub_names_what_to_check_where_the_split_is_unknown(
    hub_directory,
    read_columns,
):
    with pytest.raises(DataError, match="Unknown split") as fault:
        read_columns(f"hub:{hub_directory}", ["x"], split="dev")
    assert "`split`" in str(fault.value)
    assert fault.value.__cause__ is not None


def test_a_file_that_is_not_parquet_is_refused(put, read_columns):
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        read_columns(put("a.parquet", "x,y\n"), ["x"])
    with pytest.raises(DataError, match="cannot be read as Arrow"):
        read_columns(put("a.arrow", "x,y\n"), ["x"])


@pytest.mark.parametrize(
    ("package", "location", "extra"),
    [
        ("datasets", "hub:some/set", "hub"),
        ("pyarrow", "a.parquet", "parquet"),
        ("pyarrow", "a.arrow", "arrow"),
    ],
)
def test_a_missing_library_names_the_extra(
    put, monkeypatch, package, location, extra, read_columns
):
    require_package(package, extra)
    monkeypatch.setitem(sys.modules, package, None)
    if not location.startswith("hub:"):
        location = put(location, b"")
    with pytest.raises(DataError) as fault:
        read_columns(location, ["x"])
    assert f"pip install 'sentbed-data[{extra}]'" in str(fault.value)


def test_parquet_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path, monkeypatch
):
    """One text, repeated, is a few kilobytes of the file."""
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr(parquet_arrow, "MOST_UNPACKED", 1 << 20)
    file = tmp_path / "a.parquet"
    words = pyarrow.array(["x" * 30_000]).dictionary_encode()
    texts = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 4_000), words.dictionary
    )
    parquet.write_table(
        pyarrow.table({"x": texts.cast(pyarrow.string())}), file, compression="zstd"
    )
    assert file.stat().st_size < 100_000
    with pytest.raises(
        DataError,
        match=r"the file unpacks to more than .* bytes, over 1000 times its size",
    ):
        for _ in parquet_arrow.parquet_rows(file, ["x"]):
            pass


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_dictionary_counts_as_often_as_its_texts_are_repeated(
    suffix, tmp_path, monkeypatch
):
    """A row takes a number of the file and a whole text when it is read."""
    import pyarrow
    from pyarrow import parquet

    monkeypatch.setattr(parquet_arrow, "MOST_UNPACKED", 1 << 20)
    file = tmp_path / f"a.{suffix}"
    words = pyarrow.array(["x" * 30_000])
    texts = pyarrow.DictionaryArray.from_arrays(
        pyarrow.array([0] * 4_000, pyarrow.int8()), words
    )
    table = pyarrow.table({"x": texts})
    if suffix == "parquet":
        parquet.write_table(table, file, compression="zstd")
        read = parquet_arrow.parquet_rows
    else:
        with pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        read = parquet_arrow.arrow_rows
    with pytest.raises(
        DataError,
        match=r"the file unpacks to more than .* bytes, over 1000 times its size",
    ):
        for _ in read(file, ["x"]):
            pass


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_views_count_as_often_as_their_text_is_repeated(
    is_dictionary, tmp_path, monkeypatch
):
    """A view takes 16 bytes of the file, and may be one of a long text that all others show, too."""
    import numpy as np
    import pyarrow

    monkeypatch.setattr(parquet_arrow, "MOST_UNPACKED", 1 << 20)
    view = np.array([30_000, int.from_bytes(b"xxxx", "little"), 0, 0], np.int32)
    rows = 1 if is_dictionary else 4_000
    buffers = [
        None,
        pyarrow.py_buffer(np.tile(view, rows)),
        pyarrow.py_buffer(b"x" * 30_000),
    ]
    texts = pyarrow.Array.from_buffers(pyarrow.string_view(), rows, buffers)
    if is_dictionary:
        numbers = pyarrow.array([0, None] * 2_000, pyarrow.int8())
        texts = pyarrow.DictionaryArray.from_arrays(numbers, texts)
    file = tmp_path / "a.arrow"
    table = pyarrow.table({"x": texts})
    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert file.stat().st_size < 110_000
    with pytest.raises(
        DataError,
        match=r"the file unpacks to more than .* bytes, over 1000 times its size",
    ):
        for _ in parquet_arrow.arrow_rows(file, ["x"]):
            pass


def test_short_views_are_read(tmp_path):
    import pyarrow

    texts = ["a", None, "a text of more than twelve letters", ""]
    table = pyarrow.table({"x": pyarrow.array(texts).cast(pyarrow.string_view())})
    file = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert [row for _, (row,) in parquet_arrow.arrow_rows(file, ["x"])] == texts


def test_a_run_of_equal_values_is_refused(tmp_path):
    import pyarrow

    runs = pyarrow.RunEndEncodedArray.from_arrays([2_000_000_000], ["x"])
    table = pyarrow.table({"x": runs})
    file = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DataError, match="run-end encoded, expected plain texts"):
        next(iter(parquet_arrow.arrow_rows(file, ["x"])))
