from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from sentbed import DataError, RunError
from sentbed_data.dropout import Dropout
from sentbed_data.pairs import Pairs
from sentbed_data.parallel import Parallel
from sentbed_data.streamed_table import StreamedTable
from sentbed_data.triplets import Triplets

ROWS = 2500


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "texts"


@pytest.fixture
def table(put):
    lines = [f"premise é {row}\tyes {row}\tno {row}\n" for row in range(ROWS)]
    return put("a.tsv", "sent0\tsent1\thard_neg\n" + "".join(lines))


def assert_same(streamed, table):
    assert isinstance(streamed, StreamedTable)
    assert streamed.columns == table.columns
    everything = range(len(table))
    assert streamed.rows(everything) == table.rows(everything)
    assert list(streamed.texts()) == list(table.texts())
    assert streamed.left_out == table.left_out


def test_streamed_rows_are_those_in_memory(table, put):
    lines = put("a.txt", "".join(f"line {row}\n\n" for row in range(20)))
    zh, en = put("a.zh", "一\n\n三\n"), put("a.en", "one\ntwo\nthree\n")
    sources = [
        Triplets(path=table),
        Triplets(path=table, limit=1500),
        Triplets(path=(table, table), anchor="sent1", positive="sent0"),
        Dropout(path=lines),
        Parallel(anchor=zh, positive=en, skip_empty=True),
        Pairs(path=table, header=False, anchor="2", positive="0", limit=9),
    ]

    for source in sources:
        streamed = attrs.evolve(source, stream=True)
        assert list(streamed.check()) == []
        # The first time, the texts are written to the cache; the second time, they are found there.
        assert_same(streamed.open(), source.open())
        assert_same(streamed.open(), source.open())


def test_rows_come_in_the_order_asked_for(table):
    streamed = Triplets(path=table, stream=True).open()
    rows = streamed.rows([ROWS - 1, 0, 1024, 1023, 5, 5], epoch=3)
    expected = [f"yes {row}" for row in (ROWS - 1, 0, 1024, 1023, 5, 5)]
    assert rows["positive"] == expected
    assert streamed.rows([])["negative"] == []
    with pytest.raises(IndexError):
        streamed.rows([ROWS])


def test_a_cached_file_is_of_one_content_and_one_reading(table, put, cache):
    source = Triplets(path=table, stream=True)
    variants = [
        source,
        attrs.evolve(source, limit=5),
        attrs.evolve(source, anchor="sent1"),
        attrs.evolve(source, encoding="latin-1"),
        attrs.evolve(source, path=put("b.tsv", "sent0\tsent1\thard_neg\na\tb\tc\n")),
    ]

    fingerprints = {variant.open().fingerprint for variant in variants}
    assert len(fingerprints) == len(variants)
    assert {path.stem for path in cache.glob("*.arrow")} == fingerprints
    copy = put("c.tsv", Path(table).read_text())
    assert attrs.evolve(source, path=copy).open().fingerprint in fingerprints


def test_a_late_fault_names_the_row_and_leaves_nothing(table, cache):
    with Path(table).open("a") as file:
        file.write("a\t \tc\n")

    message = rf"`sent1`: the text is empty.*a\.tsv:{ROWS + 2}$"
    for stream in (False, True):
        with pytest.raises(DataError, match=message):
            Triplets(path=table, stream=stream).open()

    assert list(cache.glob("*.arrow")) == []


def test_a_cache_that_cannot_be_written_is_named(table, put, monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", put("plain", "a file"))
    with pytest.raises(RunError, match=r"cannot write .*plain"):
        Triplets(path=table, stream=True).open()


OPEN = """
import re, sys
from pathlib import Path
from sentbed_data.triplets import Triplets

def memory():
    # Without the pages of mapped files, which the system can drop.
    return int(re.search(r"RssAnon:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])

path, small, stream = sys.argv[1], sys.argv[2], sys.argv[3] == "stream"
Triplets(path=small, stream=stream).open().rows([0])
before = memory()
table = Triplets(path=path, stream=stream).open()
for start in range(0, 100_000, 10_000):
    table.rows(range(start, start + 64))
print(len(table), (memory() - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see memory"
)
def test_memory_does_not_grow_with_the_texts(table, tmp_path):
    """400,000 rows of 3 x 60 characters: 72 MB in the file, about 140 MB as Python's strings."""
    path = tmp_path / "large.tsv"
    columns = ("sent0", "sent1", "hard_neg")
    with path.open("w") as file:
        file.write("\t".join(columns) + "\n")
        for row in range(400_000):
            texts = [f"{name:<8} row {row:07} {'and on ' * 6}" for name in columns]
            file.write("\t".join(texts) + "\n")

    grown = {}
    for how in ("stream", "memory"):
        command = [sys.executable, "-c", OPEN, str(path), table, how]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        rows, grown[how] = map(int, done.stdout.split())
        assert rows == 400_000

    assert grown["memory"] > 100
    assert grown["stream"] < 30


@pytest.mark.slow
def test_two_processes_at_once_both_read_the_right_texts(table, cache):
    code = (
        "import sys\n"
        "from sentbed_data.triplets import Triplets\n"
        "table = Triplets(path=sys.argv[1], stream=True).open()\n"
        "print(table.fingerprint, len(table), table.rows([7])['negative'])\n"
    )

    running = []
    for _ in range(2):
        command = [sys.executable, "-c", code, table]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )

        running.append(process)

    printed = [process.communicate()[0] for process in running]
    assert printed[0] == printed[1]
    assert re.search(rf" {ROWS} \['no 7'\]$", printed[0].strip())
    assert len(list(cache.glob("*.arrow"))) == 1
