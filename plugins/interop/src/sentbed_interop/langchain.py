"""Saved encoders as embeddings of LangChain."""

from __future__ import annotations

from pathlib import Path

from sentbed_interop.loading import load, missing

try:
    # A user imports this module, and the registration does not.
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise missing("langchain-core", "langchain") from error


class SentbedEmbeddings(Embeddings):
    """Texts -> their vectors, by the encoder in a directory, for vector stores and retrievers.

    `precision` is that of the runtime `cpu`: `fp32`, `bf16` or `auto`. Documents and queries are encoded
    alike.
    """

    def __init__(self, encoder: str | Path, precision: str = "fp32") -> None:
        self.encoder = load(encoder, precision)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text."""
        vectors: list[list[float]] = self.encoder.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed_documents([text])[0]
