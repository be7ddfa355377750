from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sentbed import DataError, RunError, locate
from sentbed._files import atomic_file, sha256, write_atomic, write_directory
from sentbed._locations import (
    absolute,
    data_root,
)
from toy_fixtures import exactly

# --- locate ------------------------------------------------------------------------------------------------


def test_a_plain_path_is_itself(tmp_path):
    assert locate(str(tmp_path)) == tmp_path


def test_a_path_below_home_is_expanded(tmp_path, monkeypatch):
    (tmp_path / "x.txt").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate("~/x.txt") == tmp_path / "x.txt"


def test_pkg_is_a_file_inside_an_installed_package():
    assert locate("pkg:sentbed/py.typed").is_file()
    assert (
        locate("pkg:sentbed/_registry/distribution_catalog.toml").name
        == "distribution_catalog.toml"
    )
    assert locate("pkg:sentbed").joinpath("py.typed").is_file()


def test_pkg_does_not_import_the_package(tmp_path, monkeypatch):
    (tmp_path / "heavy_package").mkdir()
    (tmp_path / "heavy_package" / "__init__.py").write_text(
        "raise AssertionError('imported')"
    )
    (tmp_path / "heavy_package" / "data.tsv").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert (
        locate("pkg:heavy_package/data.tsv") == tmp_path / "heavy_package" / "data.tsv"
    )


def test_pkg_does_not_import_a_package_that_holds_the_named_one(tmp_path, monkeypatch):
    inner = tmp_path / "heavy_package" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "heavy_package" / "__init__.py").write_text(
        "raise AssertionError('imported')"
    )
    (inner / "data.tsv").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert locate("pkg:heavy_package.inner/data.tsv") == inner / "data.tsv"
    with pytest.raises(
        DataError,
        match=r"`heavy_package\.other`, but `heavy_package`, .* has no directory `other`",
    ):
        locate("pkg:heavy_package.other/data.tsv")


def test_pkg_of_a_package_of_several_directories_is_found_in_each(
    tmp_path, monkeypatch
):
    for part in ("one", "two"):
        inner = tmp_path / part / "several_places" / part
        inner.mkdir(parents=True)
        (inner / "x.txt").touch()
        monkeypatch.syspath_prepend(str(tmp_path / part))
    assert locate("pkg:several_places.one/x.txt").parent.name == "one"
    assert locate("pkg:several_places.two/x.txt").parent.name == "two"


def test_pkg_of_a_package_that_is_not_installed_names_what_to_install():
    with pytest.raises(
        DataError,
        match=exactly(
            "`pkg:no_such_package/data.tsv` names the Python package `no_such_package`, which is not installed; "
            "install it with `pip install no-such-package`"
        ),
    ):
        locate("pkg:no_such_package/data.tsv")


def test_pkg_of_a_module_that_is_no_package_is_refused():
    with pytest.raises(DataError, match="names the Python package `toy_plugin`"):
        locate("pkg:toy_plugin/x")


@pytest.mark.parametrize("location", ["pkg:", "pkg:/x"])
def test_pkg_without_a_package_is_refused(location):
    with pytest.raises(DataError):
        locate(location)


def test_pkg_of_a_package_inside_one_that_is_not_installed_is_refused():
    with pytest.raises(DataError, match="which is not installed"):
        locate("pkg:no_such_package.inner/x")


def test_data_is_below_the_directory_of_the_variable(tmp_path, monkeypatch):
    (tmp_path / "sts").mkdir()
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    assert data_root() == tmp_path
    assert locate("data:sts") == tmp_path / "sts"


@pytest.mark.parametrize("value", [None, ""])
def test_data_without_the_variable_says_to_set_it(value, monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)
    if value is not None:
        monkeypatch.setenv("SENTBED_DATA", value)
    assert data_root() is None
    with pytest.raises(
        DataError,
        match=exactly(
            "`data:sts/x.tsv` is relative to `SENTBED_DATA`, which is not set; "
            "set it to the directory that holds the data"
        ),
    ):
        locate("data:sts/x.tsv")


def test_a_file_that_does_not_exist_is_named_as_written_and_as_resolved(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_DATA", str(tmp_path))
    with pytest.raises(
        DataError,
        match=exactly(
            f"`data:x.tsv` does not exist; check the path @ {tmp_path / 'x.tsv'}"
        ),
    ):
        locate("data:x.tsv")

    with pytest.raises(
        DataError,
        match=exactly(f"`{tmp_path / 'x.tsv'}` does not exist; check the path"),
    ):
        locate(str(tmp_path / "x.tsv"))


def test_a_path_below_the_home_of_an_unknown_user_does_not_exist(monkeypatch):
    with pytest.raises(DataError, match="`~no-such-user/x` does not exist"):
        locate("~no-such-user/x")
    monkeypatch.setenv("SENTBED_DATA", "~no-such-user")
    with pytest.raises(DataError, match="`data:x` does not exist"):
        locate("data:x")


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("x", "/base/x"),
        ("../x", "/x"),
        ("/y/../x", "/x"),
        ("pkg:p/../x", "pkg:p/../x"),
        ("data:x", "data:x"),
        ("hub:o/n", "hub:o/n"),
        ("hub:./o/n", "hub:/base/o/n"),
        ("hub:../o", "hub:/o"),
        ("hub:/o/n", "hub:/o/n"),
        ("other:x", "/base/other:x"),
    ],
)
def test_only_plain_paths_are_made_absolute(location, expected):
    assert absolute(location, Path("/base")) == expected


# --- sha256 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"abc", bytes(range(256)) * 8192 + b"end"])
def test_the_hash_of_a_file_is_the_hash_of_its_bytes(content, tmp_path):
    (tmp_path / "f").write_bytes(content)
    assert sha256(tmp_path / "f") == hashlib.sha256(content).hexdigest()


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


def test_renaming_a_file_changes_the_hash_of_its_directory(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    before = sha256(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert sha256(tmp_path) != before


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


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_while_a_file_is_written_leaves_the_old_one_and_nothing_else(
    error, tmp_path
):
    (tmp_path / "f").write_text("old")

    def write():
        with atomic_file(tmp_path / "f") as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


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
def test_an_exception_while_a_directory_is_filled_leaves_the_old_one_and_nothing_else(
    error, tmp_path
):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "old").touch()

    def fill(directory):
        (directory / "new").touch()
        raise error

    with pytest.raises(error):
        write_directory(tmp_path / "d", fill)
    assert names(tmp_path) == ["d"]
    assert names(tmp_path / "d") == ["old"]


def test_a_place_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "f").write_text("old")
    for write in (
        lambda: write_atomic(tmp_path / "f" / "x", "new"),
        lambda: write_directory(tmp_path / "f" / "x", lambda directory: None),
    ):
        with pytest.raises(
            RunError,
            match=r"^cannot write `.*/f/x`: .*; nothing that was there is lost",
        ):
            write()
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_a_file_cannot_take_the_place_of_a_directory(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(RunError, match="is a directory; choose another place"):
        write_atomic(tmp_path / "d", "x")
    assert names(tmp_path) == ["d"]


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
