from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap

import pytest
from sentbed import DataError, locate
from sentbed._files import atomic_file, sha256, write_atomic, write_directory

# --- locate ------------------------------------------------------------------------------------------------


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A home, the data, and a package in two directories that must not be imported."""
    for name in (
        "home/x.txt",
        "data/sts/x.tsv",
        "one/heavy/a/x.txt",
        "two/heavy/b/x.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(str(tmp_path / "one"))
    monkeypatch.syspath_prepend(str(tmp_path / "two"))
    return tmp_path


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("~/x.txt", "home/x.txt"),
        ("data:sts", "data/sts"),
        ("data:sts/x.tsv", "data/sts/x.tsv"),
        ("pkg:heavy.a/x.txt", "one/heavy/a/x.txt"),
        ("pkg:heavy.b/x.txt", "two/heavy/b/x.txt"),
    ],
)
def test_a_location_is_found(location, path, places):
    assert locate(location) == places / path
    assert locate(str(places / path)) == places / path
    assert "heavy" not in sys.modules


def test_a_package_is_found_without_being_imported(places):
    for name in ("one", "two"):
        (places / name / "heavy" / "__init__.py").write_text("raise AssertionError")
    assert locate("pkg:heavy.b/x.txt") == places / "two/heavy/b/x.txt"
    assert locate("pkg:sentbed/py.typed").is_file()


@pytest.mark.parametrize(
    ("location", "message"),
    [
        (
            "pkg:no_such.inner/x",
            "`no_such.inner`, which is not installed here; .*`pip install no-such`",
        ),
        ("pkg:heavy.c/x", "`heavy.c`, which is not installed here; correct the name"),
        ("pkg:toy_plugin/x", "the Python package `toy_plugin`"),
        ("pkg:/x", "the Python package ``"),
        ("data:x.tsv", "`data:x.tsv` does not exist; check the path @ .*/data/x.tsv"),
        ("none.tsv", "`none.tsv` does not exist; check the path$"),
    ],
)
def test_what_does_not_exist_is_named(location, message, places):
    with pytest.raises(DataError, match=message):
        locate(location)


@pytest.mark.parametrize("value", [None, ""])
def test_data_without_the_variable_says_to_set_it(value, monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("SENTBED_DATA", value)
    with pytest.raises(DataError, match="relative to `SENTBED_DATA`, which is not set"):
        locate("data:sts/x.tsv")


# --- sha256 ------------------------------------------------------------------------------------------------


def test_the_hash_of_a_directory_is_over_names_and_bytes_in_the_order_of_names(
    tmp_path,
):
    for name, content in {"b.txt": b"2", "a.txt": b"1", "sub/c": b"3"}.items():
        (tmp_path / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "d" / name).write_bytes(content)
    assert (
        sha256(tmp_path / "d")
        == hashlib.sha256(b"a.txt\x001b.txt\x002sub/c\x003").hexdigest()
    )


# --- writing -----------------------------------------------------------------------------------------------


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("content", ["text with é and \u2028", b"\x00bytes\xff", ""])
def test_a_written_file_holds_what_was_given_and_nothing_lies_beside_it(
    content, tmp_path
):
    target = tmp_path / "deep" / "below" / "f"
    write_atomic(target, content)
    assert target.read_bytes() == (
        content.encode() if isinstance(content, str) else content
    )
    assert names(target.parent) == ["f"]


def test_a_written_file_can_be_read_by_others(tmp_path):
    write_atomic(tmp_path / "f", "x")
    write_directory(tmp_path / "d", lambda directory: None)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


def test_a_file_does_not_appear_before_it_is_whole(tmp_path):
    with atomic_file(tmp_path / "f") as stream:
        stream.write(b"half")
        stream.flush()
        assert not (tmp_path / "f").exists()
    assert (tmp_path / "f").read_bytes() == b"half"


def test_a_directory_replaces_the_old_one_whole(tmp_path):
    def fill(*files):
        return lambda directory: (
            [(directory / file).write_text(file) for file in files] and None
        )

    write_directory(tmp_path / "parent" / "d", fill("a", "b"))
    write_directory(tmp_path / "parent" / "d", fill("c"))
    assert names(tmp_path / "parent") == ["d"]
    assert names(tmp_path / "parent" / "d") == ["c"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_while_something_is_written_leaves_what_was_there(error, tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").touch()

    def fill(directory):
        (directory / "new").touch()
        raise error

    def write():
        with atomic_file(tmp_path / "f") as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    with pytest.raises(error):
        write_directory(tmp_path / "d", fill)
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["d", "f"]
    assert names(tmp_path / "d") == ["old"]


@pytest.mark.parametrize("moment", ["file", "directory"])
def test_a_full_disk_is_an_error_that_leaves_what_was_there(moment, tmp_path):
    # A limit on the size of files stands in for the full disk: both fail in the middle of a write.
    (tmp_path / "f").write_text("old")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").touch()
    program = """
        import resource, sys
        from pathlib import Path
        from sentbed import RunError
        from sentbed._files import write_atomic, write_directory

        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        big = b"x" * 100_000
        try:
            if sys.argv[1] == "file":
                write_atomic(Path("f"), big)
            else:
                write_directory(Path("d"), lambda directory: (directory / "new").write_bytes(big) and None)
        except RunError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), moment],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"cannot write `{moment[0]}`: File too large; nothing that was there is lost; "
        "free some space, or choose another place\n"
    )
    assert names(tmp_path) == ["d", "f"]
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path / "d") == ["old"]
