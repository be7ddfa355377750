from __future__ import annotations

import os
import re
import threading
import tracemalloc
from pathlib import Path

import pytest
from sentbed import DataError, RunError
from sentbed._files import (
    locked,
    read_file,
    remove_directory,
    require_links_within,
    sha256,
    write_atomic,
)


def test_a_lock_is_held_by_one_and_free_after_it(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
    with locked(path) as third:
        assert third


def test_a_lock_that_another_holds_is_waited_for_if_asked(tmp_path):
    path = tmp_path / "a.lock"
    acquired, done = threading.Event(), threading.Event()

    def hold():
        with locked(path):
            acquired.set()
            done.wait(5)

    holder = threading.Thread(target=hold)
    holder.start()
    acquired.wait(5)
    releaser = threading.Timer(0.2, done.set)
    releaser.start()
    with locked(path, wait=True) as free:
        assert free
        assert done.is_set()
    holder.join()
    releaser.join()


@pytest.mark.parametrize("name", ["file/locks/a.lock", "directory"])
def test_a_place_that_cannot_be_written_is_an_error_that_names_it(name, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    path = tmp_path / name
    message = f"^cannot write `{re.escape(str(path))}`: .*; choose another place$"
    with pytest.raises(RunError, match=message), locked(path):
        pytest.fail("it holds no lock")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_study_that_may_only_be_read_is_not_locked(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    with locked(path):
        pass
    path.chmod(0o444)
    with pytest.raises(RunError, match="Permission denied"), locked(path):
        pytest.fail("it holds no lock")


def test_an_error_while_the_lock_is_held_goes_on_its_way(tmp_path):
    with pytest.raises(OSError, match=r"^its own$"), locked(tmp_path / "a.lock"):
        raise OSError("its own")
    with locked(tmp_path / "a.lock") as free:
        assert free


@pytest.mark.parametrize("elsewhere", ["missing", "written", "directory"])
def test_a_link_is_replaced_and_what_it_leads_to_is_unchanged(elsewhere, tmp_path):
    place = tmp_path / "run"
    place.mkdir()
    target = tmp_path / "elsewhere"
    if elsewhere == "written":
        target.write_text("mine")
    if elsewhere == "directory":
        target.mkdir()
    (place / "report.md").symlink_to(target)

    write_atomic(place / "report.md", "report")

    assert not (place / "report.md").is_symlink()
    assert (place / "report.md").read_text() == "report"
    assert target.exists() == (elsewhere != "missing")
    assert elsewhere != "written" or target.read_text() == "mine"


def test_a_link_to_a_pipe_is_refused_and_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "report.md").symlink_to("pipe")
    with pytest.raises(
        RunError, match=r"report.md` is not a plain file; choose another place"
    ):
        write_atomic(tmp_path / "report.md", "report")
    assert (tmp_path / "report.md").is_symlink()


@pytest.mark.parametrize("name", ["log.jsonl", "tables", "cells/mean/log.jsonl"])
@pytest.mark.parametrize("target", ["file", "root", "circle"])
def test_a_link_that_leads_out_of_a_directory_is_named(name, target, tmp_path):
    link = tmp_path / "run" / name
    targets = {"file": tmp_path / "elsewhere", "root": "/", "circle": link.name}
    link.parent.mkdir(parents=True)
    link.symlink_to(targets[target])

    with pytest.raises(
        RunError,
        match=rf"`.*{name}` is a link that leads out of `.*`.*; put .*, or remove it",
    ):
        require_links_within(tmp_path / "run")


def test_a_link_within_a_directory_and_one_that_leads_to_it_are_allowed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_text("a")
    (tmp_path / "run" / "b").symlink_to("a")
    (tmp_path / "link").symlink_to("run")

    require_links_within(tmp_path / "link")
    require_links_within(tmp_path / "run")
    require_links_within(tmp_path / "missing")


@pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails"
)
def test_a_file_that_the_disk_does_not_give_is_named():
    with pytest.raises(
        DataError, match=r"the file cannot be read \(.*\); look at .* @ /proc/self/mem"
    ):
        read_file(Path("/proc/self/mem"))
    with pytest.raises(
        DataError, match=r"the file cannot be read \(.*\); look at .* @ /proc/self/mem"
    ):
        sha256(Path("/proc/self/mem"))


def test_a_small_file_takes_little_memory_whatever_its_limit(tmp_path):
    file = tmp_path / "small"
    file.write_bytes(b"x" * 3_000_000)
    tracemalloc.start()
    try:
        assert read_file(file, 1 << 30) == b"x" * 3_000_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


def test_a_directory_is_removed_and_a_pipe_of_its_name_is_not_opened(tmp_path):
    (tmp_path / "full" / "deep").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "full" / "pipe")
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    for name in ("full", "pipe", "link", "none"):
        remove_directory(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "link"]
