"""What the tests that cross packages share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data_directory(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory with real data, also set as `SENTBED_DATA`; skips where there is none."""
    beside = Path(__file__).parent.parent.parent / "shared" / "data"
    found = Path(os.environ["SENTBED_DATA"]) if os.environ.get("SENTBED_DATA") else beside
    if not found.is_dir():
        pytest.skip("needs real data: set SENTBED_DATA to a directory with senteval/downstream")
    monkeypatch.setenv("SENTBED_DATA", str(found))
    return found
