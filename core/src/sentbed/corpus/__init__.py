"""Corpora that are encoded shard by shard: `sentbed encode` into a directory, and the vectors in it."""

from sentbed.corpus.encoding import Summary, encode_corpus
from sentbed.corpus.request import Request
from sentbed.corpus.view import Vectors, open_vectors

__all__ = ["Request", "Summary", "Vectors", "encode_corpus", "open_vectors"]
