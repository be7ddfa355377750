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


def test_short_views_are_read(tmp_path):
    import pyarrow

    texts = ["a", None, "a text of more than twelve letters", ""]
    table = pyarrow.table({"x": pyarrow.array(texts).cast(pyarrow.string_view())})
    file = tmp_path / "a.arrow"
    with pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert [row for _, (row,) in parquet_arrow.arrow_rows(file, ["x"])] == texts
