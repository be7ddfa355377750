"""Encoding of corpora shard by shard with `sentbed encode`, and access to the vectors."""

from __future__ import annotations

# mypy: implicit-reexport
from typing import TYPE_CHECKING

from sentbed.helpers import lazy

if TYPE_CHECKING:
    from sentbed_corpus.corpus_encoding import Summary, encode_corpus
    from sentbed_corpus.encoding_request import Request
    from sentbed_corpus.vectors import Vectors, open_vectors

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
