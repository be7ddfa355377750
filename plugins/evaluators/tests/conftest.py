"""Encoders without weights, and the place of the real data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sentbed.protocols import TextEncoder

CHECKOUT = Path(__file__).resolve().parents[3]


class TableEncoder(TextEncoder):
    """Gives each text the vector of a table, or else one drawn from the text's hash."""

    second: TextEncoder | None = None

    def __init__(
        self, table: dict[str, Sequence[float]] | None = None, width: int = 5
    ) -> None:
        self.table = table or {}
        self.width = width
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls.append(list(texts))
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    def _vector(self, text: str) -> Sequence[float]:
        if text in self.table:
            return self.table[text]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
        return list(np.random.default_rng(seed).normal(size=self.width))


@pytest.fixture
def encoder() -> TableEncoder:
    return TableEncoder()


@pytest.fixture
def table_encoder() -> type[TableEncoder]:
    return TableEncoder


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    """Write a file below `tmp_path`, exactly as given."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SENTBED_DATA", raising=False)


@pytest.fixture
def real_data() -> Path:
    """The directory with `senteval/downstream`; the test is skipped where it is not there."""
    variable = os.environ.get("SENTBED_DATA")
    root = Path(variable) if variable else CHECKOUT.parent / "shared" / "data"
    if not (root / "senteval" / "downstream").is_dir():
        pytest.skip(
            "needs the SentEval files: set SENTBED_DATA to the directory that holds senteval/downstream"
        )
    return root
