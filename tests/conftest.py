"""What the tests that cross packages share."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sentbed
from hub_replicas.server import local_hub

if TYPE_CHECKING:
    pass


@pytest.fixture
def data_directory(monkeypatch):
    """The directory with real data, also set as `SENTBED_DATA`; skips where there is none."""
    beside = Path(__file__).parent.parent.parent / "shared" / "data"
    found = (
        Path(os.environ["SENTBED_DATA"]) if os.environ.get("SENTBED_DATA") else beside
    )
    if not found.is_dir():
        pytest.skip(
            "needs real data: set SENTBED_DATA to a directory with senteval/downstream"
        )
    monkeypatch.setenv("SENTBED_DATA", str(found))
    return found


READER = "token-of-a-reader"
"""A token with which the gated repositories of `hub` are read."""

LETTERS = {ord("a") + i: ord("一") + 7 * i for i in range(26)}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """Replicas of the hub's repositories; their tokenizers are trained on the bundled sample."""
    from hub_replicas.build import Zoo

    with sentbed.locate("pkg:sentbed_data/sample/triplets.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        sentences = [row["sent0"] for row in csv.DictReader(file)]
    # One Chinese sign a letter: as good as Chinese to a tokenizer that is trained on it.
    signs = [sentence.lower().translate(LETTERS) for sentence in sentences[:100]]
    return Zoo(tmp_path_factory.mktemp("replicas"), (*sentences, *signs))


@pytest.fixture(scope="session")
def hub():
    """A hub on this machine, empty at first."""
    with local_hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def hub_home(tmp_path_factory):
    """Where what is fetched from `hub`, and what is converted of it, is kept for the session."""
    return tmp_path_factory.mktemp("hub-home")


@pytest.fixture
def connected(hub, hub_home, monkeypatch):
    """The hub of the session for huggingface-hub, asked by somebody who has accepted all licences."""
    monkeypatch.setenv("SENTBED_CACHE", str(hub_home / "sentbed"))
    with hub.connected(hub_home, READER):
        yield hub
