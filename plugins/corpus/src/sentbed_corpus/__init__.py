"""Corpora that are encoded shard by shard: `sentbed encode` into a directory, and the vectors in it."""

from sentbed_corpus.encoding import Summary, encode_corpus
from sentbed_corpus.request import Request
from sentbed_corpus.vectors import Vectors, open_vectors

__all__ = ["Request", "Summary", "Vectors", "encode_corpus", "open_vectors"]
