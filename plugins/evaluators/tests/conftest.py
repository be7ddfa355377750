"""Encoders without weights, and the place of the real data."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
from sentbed.protocols import TextEncoder

CHECKOUT = Path(__file__).resolve().parents[3]


class TableEncoder(TextEncoder):
    """Gives each text the vector of a table, or else one drawn from the text's hash."""

    second: TextEncoder | None = None

    def __init__(self, table=None, width=5):
        self.table = table or {}
        self.width = width
        self.calls = []

    def encode(self, texts):
        self.calls.append(list(texts))
        return np.array([self._vector(text) for text in texts], dtype=np.float32)

    def _vector(self, text):
        if text in self.table:
            return self.table[text]
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])
        return list(np.random.default_rng(seed).normal(size=self.width))


@pytest.fixture
def encoder():
    return TableEncoder()


@pytest.fixture
def table_encoder():
    return TableEncoder


@pytest.fixture
def write(tmp_path):
    """Write a file below `tmp_path`, exactly as given."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("SENTBED_DATA", raising=False)


@pytest.fixture
def real_data():
    """The directory with `senteval/downstream`; the test is skipped where it is not there."""
    variable = os.environ.get("SENTBED_DATA")
    root = Path(variable) if variable else CHECKOUT.parent / "shared" / "data"
    if not (root / "senteval" / "downstream").is_dir():
        pytest.skip(
            "needs the SentEval files: set SENTBED_DATA to the directory that holds senteval/downstream"
        )
    return root
