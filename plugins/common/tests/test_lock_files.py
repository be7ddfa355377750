from __future__ import annotations

import os

import pytest
from sentbed.tools import locked
from sentbed_common import is_locked


def test_a_lock_is_seen_while_it_is_held(tmp_path):
    path = tmp_path / "a.lock"
    with locked(path):
        assert is_locked(path)

    assert not is_locked(path)


def test_a_look_at_a_lock_makes_nothing(tmp_path):
    assert not is_locked(tmp_path / "locks" / "a.lock")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_read_is_not_locked(tmp_path):
    (tmp_path / "file").touch()
    assert not is_locked(tmp_path / "file" / "a.lock")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_study_that_may_only_be_read_is_looked_at(tmp_path):
    path = tmp_path / "locks" / "a.lock"
    with locked(path):
        pass

    path.chmod(0o444)
    assert not is_locked(path)
