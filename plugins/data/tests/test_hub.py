"""What locations of the hub name, and what shows without the network."""

from __future__ import annotations

import gzip
import os

import pytest
from sentbed import DataError, FilePath
from sentbed_data.dropout import Dropout
from sentbed_data.hub import is_on_this_machine, parse
from sentbed_data.nsp import Nsp
from sentbed_data.readers import read_lines, suffix_of
from sentbed_data.triplets import Triplets


@pytest.mark.parametrize(
    ("location", "name", "file"),
    [
        ("hub:imdb", "imdb", None),
        ("hub:o/n", "o/n", None),
        ("hub:o/n/a.csv", "o/n", "a.csv"),
        ("hub:o/n/data/a.csv", "o/n", "data/a.csv"),
        ("hub:/some/directory/of/files", "/some/directory/of/files", None),
        ("hub:./a/b/c", "./a/b/c", None),
    ],
)
def test_what_follows_the_id_is_a_file(location, name, file):
    place = parse(location)
    assert (place.name, place.file) == (name, file)


@pytest.mark.parametrize(
    ("location", "suffix"),
    [
        ("a.CSV", ".csv"),
        ("hub:o/n/a.jsonl.gz", ".jsonl"),
        ("a.txt.gz", ".txt"),
        ("a.gz", ".gz"),
    ],
)
def test_gz_is_behind_the_suffix_of_the_format(location, suffix):
    assert suffix_of(location) == suffix


def test_a_compressed_file_is_read_like_its_content(put, tmp_path, read_columns):
    texts = put("a.csv.gz", gzip.compress(b"x,y\na,b\nc,d\n"))
    assert read_columns(texts, ["y"]) == [["b", "d"]]
    assert list(read_lines(put("a.txt.gz", gzip.compress(b"One.\n\nTwo.\n")))) == [
        "One.",
        "Two.",
    ]
    with pytest.raises(DataError, match=r"no column `z`.*a\.csv\.gz:1$"):
        read_columns(texts, ["z"])
    whole = gzip.compress(os.urandom(1000).hex().encode())
    for name, content in {"no": b"x\n", "half": whole[: len(whole) // 2]}.items():
        with pytest.raises(DataError, match="damaged or cut short"):
            list(read_lines(put(f"{name}.txt.gz", content)))


def test_a_file_is_here_where_the_cache_has_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not is_on_this_machine("hub:o/n/data/a.csv")
    snapshot = tmp_path / "datasets--o--n" / "snapshots" / "0123" / "data"
    snapshot.mkdir(parents=True)
    (snapshot / "a.csv").write_text("x\n")
    reference = tmp_path / "datasets--o--n" / "refs" / "main"
    reference.parent.mkdir()
    reference.write_text("0123")
    assert is_on_this_machine("hub:o/n/data/a.csv")
    assert not is_on_this_machine("hub:o/n/data/b.csv")
    assert is_on_this_machine("hub:o/n/data/a.csv", "0123")
    assert not is_on_this_machine("hub:o/n/data/a.csv", "v9")
    reference.write_text("4567")
    assert not is_on_this_machine("hub:o/n/data/a.csv")
    assert Triplets(path=FilePath("hub:o/n/data/a.csv")).fetches
    assert not Triplets(path=FilePath("hub:o/n/data/a.csv"), revision="0123").fetches


@pytest.mark.parametrize("variable", ["HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME"])
def test_a_data_set_is_here_where_the_cache_has_its_commit(
    variable, tmp_path, monkeypatch
):
    for name in ("HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    below = {
        "HF_DATASETS_CACHE": "",
        "HF_HOME": "datasets",
        "XDG_CACHE_HOME": "huggingface/datasets",
    }
    assert not is_on_this_machine("hub:o/n")
    (tmp_path / below[variable] / "o___n" / "default" / "0.0.0" / ("a" * 40)).mkdir(
        parents=True
    )
    assert is_on_this_machine("hub:o/n")
    assert is_on_this_machine("hub:o/n", "a" * 40)
    assert not is_on_this_machine("hub:o/n", "b" * 40)


def test_a_file_has_a_revision_and_no_split():
    file = FilePath("hub:o/n/a.csv")
    assert (
        list(Triplets(path=file, revision="v1", header=False, stream=True).check())
        == []
    )
    (problem,) = Triplets(path=file, config="x").check()
    assert problem.startswith(
        "`config` is for a `hub:` data set, and `hub:o/n/a.csv` is a file; remove"
    )
    (problem,) = Triplets(path=FilePath("hub:o/n/a.txt")).check()
    assert problem.startswith("`hub:o/n/a.txt` has the suffix '.txt'; expected one of")
    assert list(Dropout(path=FilePath("hub:o/n/a.txt")).check()) == []
    assert list(Nsp(path=FilePath("hub:o/n/a.txt")).check()) == []


@pytest.mark.parametrize("directory", ["/no-such-set", "./no-such-set"])
def test_a_directory_that_does_not_exist_is_a_problem(directory):
    (problem,) = Triplets(path=FilePath(f"hub:{directory}")).check()
    assert "does not exist" in problem


def test_a_directory_in_the_home_directory_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse("hub:~/set").name == str(tmp_path / "set")
