"""What all tests share, whichever distribution they are of."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

_numbers = count()


@pytest.fixture(scope="session", autouse=True)
def _no_cache_of_the_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep sentbed's cache out of the user's home, also for what is set up once for many tests."""
    directory = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SENTBED_CACHE", str(directory / "session"))
        patch.delenv("SENTBED_CACHE_GB", raising=False)
        yield directory


@pytest.fixture(autouse=True)
def _own_cache(_no_cache_of_the_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test a cache that no other test has filled."""
    monkeypatch.setenv("SENTBED_CACHE", str(_no_cache_of_the_user / str(next(_numbers))))
