from __future__ import annotations

import platformdirs
import pytest
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from sentbed import RunError
from sentbed_common import cache_root


def test_the_cache_is_in_the_users_cache_directory_unless_told_otherwise(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SENTBED_CACHE", str(tmp_path / "cache"))
    assert cache_root() == tmp_path / "cache"
    monkeypatch.delenv("SENTBED_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(platformdirs, "PlatformDirs", Unix)
    assert cache_root() == tmp_path / ".cache" / "sentbed"
    monkeypatch.setattr(platformdirs, "PlatformDirs", MacOS)
    assert cache_root() == tmp_path / "Library" / "Caches" / "sentbed"
    monkeypatch.setattr(platformdirs, "PlatformDirs", Unix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == tmp_path / "xdg" / "sentbed"


def test_a_cache_in_the_home_of_an_unknown_user_is_refused(monkeypatch):
    monkeypatch.setenv("SENTBED_CACHE", "~no-such-user/cache")
    with pytest.raises(RunError, match="`SENTBED_CACHE` is '~no-such-user/cache'"):
        cache_root()
