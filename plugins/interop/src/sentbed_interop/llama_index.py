"""Saved encoders as an embedding model of LlamaIndex."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sentbed_interop.lazy_encoder import LazyEncoder, missing_library

try:
    # Users import this module; the plugin's registration does not.
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
except ImportError as error:
    raise missing_library("llama-index-core", "llama-index") from error

BATCH = 2048
"""Texts per call of LlamaIndex, its largest number; sentbed makes its own batches of them."""


class SentbedEmbedding(BaseEmbedding):
    """Texts -> their vectors, by the encoder in a directory, for indexes and retrievers.

    `precision` is that of the runtime `cpu`: `fp32`, `bf16` or `auto`. Documents and queries are encoded
    alike. Python code that comes with its model runs only with `trust_remote_code`, which `to_dict` leaves
    out: a file does not decide it. Further options are those of `BaseEmbedding`. A pickle and `to_dict` leave
    the weights out.
    """

    encoder: str = Field(description="The directory of a saved encoder.")
    precision: str = Field(description="That of the runtime `cpu`.")
    _held: LazyEncoder = PrivateAttr()

    def __init__(
        self,
        encoder: str | Path,
        precision: str = "fp32",
        trust_remote_code: bool = False,
        **options: Any,
    ) -> None:
        named = {"encoder": str(encoder), "precision": precision}
        super().__init__(
            **{
                "model_name": str(encoder),
                "embed_batch_size": BATCH,
                **options,
                **named,
            }
        )
        self._held = LazyEncoder(encoder, precision, trust_remote_code)
        # A directory without encoder is refused here, not at the first text.
        _ = self._held.encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises it."""
        return "SentbedEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._held = self._held.at(
            self.encoder, self.precision, self._held.trust_remote_code
        )
        vectors: list[list[float]] = self._held.encoder.encode(texts).tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
