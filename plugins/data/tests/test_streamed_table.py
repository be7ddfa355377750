from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pyarrow
import pytest
from damage import damages
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sentbed import DataError, RunError
from sentbed_common import LONGEST_LINE
from sentbed_data.arrow_texts import BATCH_ROWS
from sentbed_data.dropout import Dropout
from sentbed_data.pairs import Pairs
from sentbed_data.streamed_table import StreamedTable
from sentbed_data.triplets import Triplets

ROWS = 2 * BATCH_ROWS + 17
COLUMNS = ("sent0", "sent1", "hard_neg")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "texts"


def columns_of(rows):
    return {
        name: [f"{name}, \u00e9\u4e2d number {row}" for row in range(rows)]
        for name in COLUMNS
    }


def write(path, columns):
    """Write the columns in the format of the suffix."""
    rows = list(zip(*columns.values(), strict=True))
    match path.suffix:
        case ".csv":
            quoted = [
                ",".join(f'"{text}"' for text in row) for row in [tuple(columns), *rows]
            ]
            path.write_text("\n".join(quoted) + "\n")
        case ".tsv":
            path.write_text(
                "".join("\t".join(row) + "\n" for row in [tuple(columns), *rows])
            )
        case ".jsonl":
            path.write_text(
                "".join(
                    json.dumps(dict(zip(columns, row, strict=True))) + "\n"
                    for row in rows
                )
            )
        case ".parquet":
            parquet.write_table(pyarrow.table(columns), path, row_group_size=1000)
        case ".arrow":
            write_arrow(path, pyarrow.table(columns))
    return str(path)


def write_arrow(path, table, kind="new_file", compression=None):
    options = pyarrow.ipc.IpcWriteOptions(compression=compression)
    with getattr(pyarrow.ipc, kind)(str(path), table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=1000)
    return str(path)


def copies(cache):
    """The texts in the cache; beside each is its hash."""
    paths = sorted(cache.glob("*.arrow"))
    assert {path.name for path in cache.glob("*")} == {
        name for path in paths for name in (path.name, f"{path.name}.sha256")
    }
    return paths


def assert_same(streamed, table):
    assert isinstance(streamed, StreamedTable)
    assert streamed.columns == table.columns
    assert len(streamed) == len(table)
    everything = range(len(table))
    assert streamed.rows(everything) == table.rows(everything)
    assert list(streamed.texts()) == list(table.texts())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet", ".arrow"])
def test_streamed_rows_are_those_in_memory(tmp_path, cache, suffix):
    source = Triplets(path=write(tmp_path / f"a{suffix}", columns_of(ROWS)))
    streamed = attrs.evolve(source, stream=True).open()
    assert_same(streamed, source.open())
    # An Arrow file is its own.
    assert len(copies(cache)) == (suffix != ".arrow")
    assert_same(
        attrs.evolve(source, stream=True, limit=1500).open(),
        attrs.evolve(source, limit=1500).open(),
    )


def test_pairs_and_sentences_are_streamed_too(put, tmp_path):
    lines = put("a.txt", "".join(f"line {i}\n\n" for i in range(ROWS)))
    columns = columns_of(9)
    table = put(
        "a.tsv",
        "".join("\t".join(row) + "\n" for row in zip(*columns.values(), strict=True)),
    )
    sources = [
        Dropout(path=lines),
        Dropout(path=lines, limit=3),
        Dropout(path=write(tmp_path / "b.csv", columns), column="sent1"),
        Pairs(
            path=write(tmp_path / "c.csv", columns), anchor="hard_neg", positive="sent0"
        ),
        Triplets(path=table, header=False),
    ]
    for source in sources:
        assert_same(attrs.evolve(source, stream=True).open(), source.open())


def test_rows_come_in_the_order_asked_for_and_texts_by_column(tmp_path):
    columns = columns_of(ROWS)
    streamed = Triplets(path=write(tmp_path / "a.csv", columns), stream=True).open()
    rows = [ROWS - 1, 0, BATCH_ROWS, BATCH_ROWS - 1, 5, 5, 2 * BATCH_ROWS]
    assert streamed.rows(rows, epoch=3) == {
        column: [columns[name][row] for row in rows]
        for column, name in zip(
            ("anchor", "positive", "negative"), COLUMNS, strict=True
        )
    }
    assert streamed.rows([]) == {"anchor": [], "positive": [], "negative": []}
    assert list(streamed.texts(["negative"])) == columns["hard_neg"]
    with pytest.raises(IndexError):
        streamed.rows([ROWS])


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    content=st.text('ab,"\t\n\r \u2028{}:', max_size=40) | st.binary(max_size=30),
    suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".txt", ".parquet", ".arrow"]),
)
def test_what_is_refused_in_memory_is_refused_alike_and_leaves_nothing(
    put, cache, content, suffix
):
    source = Dropout(
        path=put(f"a{suffix}", content), header=suffix not in (".csv", ".tsv")
    )
    before = set(cache.glob("*"))
    table, refusal = outcome(source)
    streamed, streamed_refusal = outcome(attrs.evolve(source, stream=True))
    assert streamed_refusal == refusal
    if refusal:
        assert set(cache.glob("*")) == before
    else:
        assert_same(streamed, table)


def outcome(source):
    try:
        return source.open(), ""
    except DataError as error:
        return None, str(error)


def test_a_late_fault_names_file_and_line_and_leaves_nothing(tmp_path, cache):
    columns = columns_of(ROWS)
    columns["sent1"][BATCH_ROWS + 5] = " "
    path = write(tmp_path / "a.csv", columns)
    with pytest.raises(
        DataError, match=rf"`sent1`: the text is empty.*a\.csv:{BATCH_ROWS + 7}$"
    ):
        Triplets(path=path, stream=True).open()
    assert list(cache.iterdir()) == []


def test_a_cached_file_is_used_again_and_not_for_another_content_or_reading(
    tmp_path, cache, monkeypatch
):
    path = tmp_path / "a.csv"
    source = Triplets(path=write(path, columns_of(20)), stream=True)
    first = source.open()
    (cached,) = copies(cache)
    stamp = cached.stat().st_mtime_ns, cached.stat().st_ino
    with monkeypatch.context() as patched:
        patched.setattr(Triplets, "_rows", lambda *_: pytest.fail("read again"))
        assert source.open().fingerprint == first.fingerprint
        copy = write(tmp_path / "b.csv", columns_of(20))
        assert attrs.evolve(source, path=copy).open().fingerprint == first.fingerprint
    assert (cached.stat().st_mtime_ns, cached.stat().st_ino) == stamp
    others = [
        attrs.evolve(source, limit=5).open(),
        attrs.evolve(source, anchor="sent1").open(),
        attrs.evolve(source, header=False).open(),
        attrs.evolve(source, encoding="latin-1").open(),
        Triplets(path=write(tmp_path / "a.jsonl", columns_of(20)), stream=True).open(),
    ]
    write(path, columns_of(21))
    others.append(source.open())
    assert len(others[-1]) == 21
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == 7
    assert len(copies(cache)) == 7


def test_compressed_bytes_are_cached_apart_for_each_format(tmp_path):
    # A quote is data in TSV only.
    content = gzip.compress(b'sent0\n"A"\n"B"\n')
    expected = {"csv": ["A", "B"], "tsv": ['"A"', '"B"']}
    for suffix, anchors in expected.items():
        path = tmp_path / f"a.{suffix}.gz"
        path.write_bytes(content)
        source = Dropout(path=str(path), column="sent0")
        streamed = attrs.evolve(source, stream=True).open()
        assert streamed.rows([0, 1])["anchor"] == anchors
        assert_same(streamed, source.open())


@pytest.mark.parametrize("file", ["texts", "hash"])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_no_damage_of_a_cached_file_changes_a_text(file, damage, tmp_path, cache):
    source = Triplets(path=write(tmp_path / "a.csv", columns_of(40)))
    attrs.evolve(source, stream=True).open()
    (cached,) = copies(cache)
    whole = cached.read_bytes()
    damaged = cached if file == "texts" else cached.with_name(f"{cached.name}.sha256")
    damaged.write_bytes(damage(damaged.read_bytes()))
    assert_same(attrs.evolve(source, stream=True).open(), source.open())
    assert cached.read_bytes() == whole


def test_cached_texts_that_were_exchanged_are_made_again(tmp_path, cache):
    sources = [
        Triplets(path=write(tmp_path / f"{rows}.csv", columns_of(rows)))
        for rows in (20, 30)
    ]
    for source in sources:
        attrs.evolve(source, stream=True).open()
    first, second = copies(cache)
    first.rename(tmp_path / "kept")
    second.rename(first)
    (tmp_path / "kept").rename(second)
    for source in sources:
        assert_same(attrs.evolve(source, stream=True).open(), source.open())


@pytest.mark.parametrize("suffix", [".csv", ".arrow"])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_a_file_that_is_damaged_while_it_is_open_is_an_error_and_not_the_end(
    suffix, damage, tmp_path, cache
):
    path = tmp_path / f"a{suffix}"
    source = Triplets(path=write(path, columns_of(300)), stream=True)
    streamed = source.open()
    file = path if suffix == ".arrow" else copies(cache)[0]
    expected, whole = streamed.rows(range(300)), file.read_bytes()
    with file.open("r+b") as stream:
        stream.truncate(0)
        stream.write(damage(whole))
    os.utime(
        file, ns=(0, 0)
    )  # the clock of a file system may stand still for some milliseconds
    for read in (lambda: streamed.rows(range(300)), lambda: list(streamed.texts())):
        with pytest.raises(
            DataError,
            match="changed while it was in use; run again when it is complete",
        ):
            read()
    file.unlink()
    assert source.open().rows(range(300)) == expected if suffix == ".csv" else True


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, cache, monkeypatch):
    path = tmp_path / "a.csv"
    source = Triplets(path=write(path, columns_of(5)), stream=True)
    rows = Triplets._rows

    def changing(self, names, left_out):
        write(path, columns_of(6))
        return rows(self, names, left_out)

    monkeypatch.setattr(Triplets, "_rows", changing)
    with pytest.raises(DataError, match="changed while it was read"):
        source.open()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "compression", "cached"),
    [
        ("new_file", None, 0),
        ("new_stream", None, 0),
        ("new_file", "lz4", 1),
        ("new_stream", "zstd", 1),
    ],
)
def test_an_arrow_file_is_mapped_in_place_where_it_can_be(
    tmp_path, cache, kind, compression, cached
):
    table = pyarrow.table({**columns_of(2500), "other": list(range(2500))})
    path = write_arrow(tmp_path / "a.arrow", table, kind, compression)
    streamed = Triplets(path=path, stream=True).open()
    assert_same(streamed, Triplets(path=path).open())
    assert len(copies(cache)) == cached


def test_an_arrow_file_of_other_texts_than_plain_strings_is_copied(tmp_path, cache):
    table = pyarrow.table(
        {name: pyarrow.array(texts) for name, texts in columns_of(50).items()}
    )
    coded = table.set_column(0, "sent0", table["sent0"].dictionary_encode())
    large = table.cast(
        pyarrow.schema([(name, pyarrow.large_string()) for name in COLUMNS])
    )
    for number, (stored, cached) in enumerate([(large, 0), (coded, 1)]):
        path = write_arrow(tmp_path / f"{number}.arrow", stored)
        assert_same(Triplets(path=path, stream=True).open(), Triplets(path=path).open())
        assert len(copies(cache)) == cached


@pytest.mark.parametrize("text", ["", " \t", "\u3000", None, "x" * (LONGEST_LINE + 1)])
def test_a_mapped_arrow_file_is_held_to_the_same_rules(tmp_path, text):
    columns = columns_of(2500)
    columns["hard_neg"][2100] = text
    path = write_arrow(tmp_path / "a.arrow", pyarrow.table(columns))
    faults = []
    for stream in (False, True):
        with pytest.raises(
            DataError, match=r"row 2101, column `hard_neg`.*a\.arrow"
        ) as fault:
            Triplets(path=path, stream=stream).open()
        faults.append(str(fault.value))
        assert len(Triplets(path=path, stream=stream, limit=2100).open()) == 2100
    assert faults[0] == faults[1]


def test_a_cache_that_cannot_be_written_is_named_with_its_variable(
    put, tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_CACHE", put("plain", "a file"))
    path = write(tmp_path / "a.csv", columns_of(5))
    with pytest.raises(RunError, match=r"cannot write .*plain.*`SENTBED_CACHE`"):
        Triplets(path=path, stream=True).open()


OPEN = """
import re, sys
from pathlib import Path
import pyarrow
from sentbed_data.triplets import Triplets

def peak():
    # Not `ru_maxrss`: a process inherits that of the one that started it.
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

path, small, stream = sys.argv[1], sys.argv[2], sys.argv[3] == "stream"
Triplets(path=small, stream=stream).open().rows([0])
before = peak()
table = Triplets(path=path, stream=stream).open()
for start in range(0, 100_000, 10_000):
    table.rows(range(start, start + 64))
print(len(table), (peak() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see the peak"
)
def test_memory_does_not_grow_with_the_texts(tmp_path):
    """400,000 rows of 3 x 60 characters: 72 MB in the file, about 140 MB as Python's strings."""
    path = tmp_path / "a.tsv"
    with path.open("w") as file:
        file.write("\t".join(COLUMNS) + "\n")
        for row in range(400_000):
            file.write(
                "\t".join(
                    f"{name:<8} of row {row:07} {'and so on ' * 4}" for name in COLUMNS
                )
                + "\n"
            )
    small = write(tmp_path / "small.csv", columns_of(5))
    grown = {}
    for how in ("stream", "memory"):
        command = [sys.executable, "-c", OPEN, str(path), small, how]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        rows, grown[how] = map(int, done.stdout.split())
        assert rows == 400_000
    assert grown["memory"] > 110
    assert grown["stream"] < 30


@pytest.mark.slow
def test_two_processes_at_once_both_read_the_right_texts(tmp_path, cache):
    path = write(tmp_path / "a.jsonl", columns_of(30_000))
    code = (
        "import hashlib, sys\n"
        "from sentbed_data.triplets import Triplets\n"
        "table = Triplets(path=sys.argv[1], stream=True).open()\n"
        "print(table.fingerprint, hashlib.sha256('\\n'.join(table.texts()).encode()).hexdigest())\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, path],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        for _ in range(2)
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert printed[0] == printed[1]
    assert len(copies(cache)) == 1
