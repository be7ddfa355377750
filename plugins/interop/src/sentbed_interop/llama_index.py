"""Saved encoders as embedding models for LlamaIndex."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from sentbed_interop.lazy_encoder import LazyEncoder, missing_library

try:
    # Only users import this module, so that the plugin can be registered without the library.
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import Field, PrivateAttr
except ImportError as error:
    raise missing_library("llama-index-core", "llama-index") from error

BATCH = 2048
"""Default number of texts per call, the largest that LlamaIndex allows. sentbed divides them into its batches."""


class SentbedEmbedding(BaseEmbedding):
    """Vectors of texts from a saved encoder, for indexes and retrievers.

    `encoder` is the directory of the encoder, and `precision` the precision of the runtime `cpu`: `fp32`, `bf16`
    or `auto`. Further options are those of `BaseEmbedding`. Documents and queries are encoded alike. Pickles and
    `to_dict` do not contain the weights.

    Python code that comes with the model runs only with `trust_remote_code`. `to_dict` leaves this option out,
    since a file must not decide it.
    """

    encoder: str = Field(description="The directory of a saved encoder.")
    precision: str = Field(description="The precision of the runtime `cpu`.")
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
        # The encoder is loaded now, so that an error comes before the first text.
        _ = self._held.encoder

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex serialises the class."""
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
