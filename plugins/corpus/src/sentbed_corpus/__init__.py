"""Corpora that are encoded shard by shard: `sentbed encode` into a directory, and the vectors in it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sentbed_corpus.encoding import Summary, encode_corpus
    from sentbed_corpus.request import Request
    from sentbed_corpus.vectors import Vectors, open_vectors

__all__ = ["Request", "Summary", "Vectors", "encode_corpus", "open_vectors"]

_MODULES = {
    "Request": "request",
    "Summary": "encoding",
    "Vectors": "vectors",
    "encode_corpus": "encoding",
    "open_vectors": "vectors",
}


def __getattr__(name: str) -> Any:
    """Import what encodes when it is first used: the plugin is loaded by every command."""
    if name not in _MODULES:
        raise AttributeError(f"module `sentbed_corpus` has no attribute `{name}`")
    return getattr(import_module(f"sentbed_corpus.{_MODULES[name]}"), name)
