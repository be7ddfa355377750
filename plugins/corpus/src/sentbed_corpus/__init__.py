"""Encoding of corpora shard by shard, access to their vectors, and mining of hard negatives."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy

if TYPE_CHECKING:
    from sentbed_corpus.corpus_encoding import Summary, encode_corpus
    from sentbed_corpus.encoding_request import Request
    from sentbed_corpus.hard_negatives import Mined, MiningRequest, mine_hard_negatives
    from sentbed_corpus.negative_rules import Rules
    from sentbed_corpus.vector_reader import open_vectors

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
