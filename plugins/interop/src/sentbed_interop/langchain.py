"""Saved encoders as embeddings for LangChain."""

from __future__ import annotations

from pathlib import Path

from sentbed_interop.lazy_encoder import LazyEncoder, missing_library

try:
    # Only users import this module, so that the plugin can be registered without the library.
    from langchain_core.embeddings import Embeddings
except ImportError as error:
    raise missing_library("langchain-core", "langchain") from error


class SentbedEmbeddings(Embeddings):
    """Vectors of texts from a saved encoder, for vector stores and retrievers.

    `encoder` is the directory of the encoder, and `precision` the precision of the runtime `cpu`: `fp32`, `bf16`
    or `auto`. Documents and queries are encoded alike. Python code that comes with the model runs only with
    `trust_remote_code`. Pickles do not contain the weights.
    """

    def __init__(
        self,
        encoder: str | Path,
        precision: str = "fp32",
        trust_remote_code: bool = False,
    ) -> None:
        self._held = LazyEncoder(encoder, precision, trust_remote_code)
        # The encoder is loaded now, so that an error comes before the first text.
        _ = self._held.encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector per text."""
        vectors: list[list[float]] = self._held.encoder.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed_documents([text])[0]
