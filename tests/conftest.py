"""What the tests that cross packages share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hub_replicas.local_hub import LocalHub
from sample_sentences import in_chinese_characters, sample_sentences

pytest.register_assert_rewrite("engine_suite")


@pytest.fixture
def data_directory(monkeypatch):
    """The directory with real data, also set as `SENTBED_DATA`; skips where there is none."""
    beside = Path(__file__).parent.parent.parent / "shared" / "data"
    directory = (
        Path(os.environ["SENTBED_DATA"]) if os.environ.get("SENTBED_DATA") else beside
    )
    if not directory.is_dir():
        pytest.skip(
            "needs real data: set SENTBED_DATA to a directory with senteval/downstream"
        )
    monkeypatch.setenv("SENTBED_DATA", str(directory))
    return directory


@pytest.fixture(scope="session")
def zoo(tmp_path_factory):
    """Replicas of the hub's repositories; their tokenizers are trained on the bundled sample."""
    from hub_replicas.build import Zoo

    sentences = sample_sentences()
    texts = (*sentences, *map(in_chinese_characters, sentences[:100]))
    return Zoo(tmp_path_factory.mktemp("replicas"), texts)


@pytest.fixture(scope="session")
def hub():
    """A hub on this machine, empty at first."""
    return LocalHub()


@pytest.fixture(scope="session")
def hub_home(tmp_path_factory):
    """Where what is fetched from `hub`, and what is converted of it, is kept for the session."""
    return tmp_path_factory.mktemp("hub-home")


@pytest.fixture
def connected(hub, hub_home, monkeypatch):
    """The hub of the session for huggingface-hub, with all licences accepted."""
    monkeypatch.setenv("SENTBED_CACHE", str(hub_home / "sentbed"))
    with hub.connected(hub_home):
        yield hub


@pytest.fixture(scope="session")
def decoders(tmp_path_factory):
    """Decoders of transformers with random weights, each saved with its tokenizer."""
    from random_decoders import random_decoders

    return random_decoders(tmp_path_factory.mktemp("decoders"))


@pytest.fixture
def encoded_batches(monkeypatch):
    """Record each batch that an encoder of torch encodes."""
    from sentbed_hardware._torch.placed_encoder import TorchEncoder

    batches = []
    encode = TorchEncoder.encode

    def record(encoder, batch):
        batches.append(batch)
        return encode(encoder, batch)

    monkeypatch.setattr(TorchEncoder, "encode", record)
    return batches
