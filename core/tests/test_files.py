from __future__ import annotations

import re
from pathlib import Path

import pytest
from sentbed import RunError
from sentbed._files import locked, write_directory


def test_a_lock_is_held_by_one_and_free_after_it(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    with locked(path) as third:
        assert third


@pytest.mark.parametrize("name", ["file/locks/a.lock", "directory"])
def test_a_place_that_cannot_be_written_is_an_error_that_names_it(name, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    path = tmp_path / name
    message = f"^cannot write `{re.escape(str(path))}`: .*; choose another place$"
    with pytest.raises(RunError, match=message), locked(path):
        pytest.fail("it holds no lock")


def test_an_error_while_the_lock_is_held_goes_on_its_way(tmp_path):
    with pytest.raises(OSError, match=r"^its own$"), locked(tmp_path / "a.lock"):
        raise OSError("its own")
    with locked(tmp_path / "a.lock") as free:
        assert free


def test_a_directory_that_is_replaced_stays_until_the_new_one_has_its_place(
    tmp_path, monkeypatch
):
    path = tmp_path / "saved"
    write_directory(path, lambda directory: (directory / "a").write_text("first"))
    rename = Path.rename

    def interrupted(old, new):
        if new == path and (old / "b").exists():
            raise KeyboardInterrupt
        return rename(old, new)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_directory(path, lambda directory: (directory / "b").write_text("new"))
    assert list(tmp_path.iterdir()) == [path]
    assert (path / "a").read_text() == "first"
