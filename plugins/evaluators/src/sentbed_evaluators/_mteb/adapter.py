"""Encoders of sentbed as models of mteb."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import torch
from mteb.abstasks.abstask import get_abstask_prompt
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.similarity_functions import cos_sim, pairwise_cos_sim
from sentbed import DataError, Encoder
from sentbed.errors import listed
from sentbed.protocols import Similarity, TextEncoder, TextTask
from sentbed_common import fingerprint_of

from sentbed_evaluators.cosine_correlation import require_nonzero

if TYPE_CHECKING:
    import numpy as np
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import Array, BatchedInput, PromptType
    from numpy.typing import NDArray
    from torch.utils.data import DataLoader

_TRAINS_ON_VECTORS = ("Classification", "MultilabelClassification", "Regression")


class MTEBModel:
    """An encoder with the interface that mteb 2 expects (`mteb.EncoderProtocol`).

    mteb passes the name and type of a task, its instruction, and whether texts are queries or documents. By
    these, the encoder chooses a prompt among its `task_prompts`. Vectors are compared by the encoder's similarity
    or, if it names none, by the cosine.
    """

    def __init__(self, encoder: TextEncoder, meta: ModelMeta) -> None:
        self._encoder = encoder
        self._meta = meta

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """The encoder's name, revision and size, which mteb writes into its results."""
        return self._meta

    def encode(
        self,
        inputs: DataLoader[BatchedInput],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        **kwargs: Any,
    ) -> NDArray[np.float32]:
        """Return one vector per text, `(n, width)`, in mteb's order.

        All batches are read before any text is encoded, so that the encoder can sort the texts by length and
        encode equal texts once.

        Raises:
            RunError: if a vector is zero and the task trains a classifier or a regression on the vectors.
        """
        texts = _texts(inputs, task_metadata.name)
        task = text_task(task_metadata, prompt_type)
        vectors: NDArray[np.float32] = self._encoder.encode(texts, task)
        if task_metadata.type in _TRAINS_ON_VECTORS:
            return require_nonzero(vectors, texts)

        return vectors

    def similarity(self, embeddings1: Array, embeddings2: Array) -> Array:
        """Return the similarities of all pairs of rows, `(n, m)`; by default, these are cosines."""
        similarity = self._encoder.similarity
        if similarity is None:
            return cos_sim(embeddings1, embeddings2)
        first, second = _normalized(similarity, embeddings1, embeddings2)
        similarities: torch.Tensor = similarity.similarity(first, second)

        return similarities

    def similarity_pairwise(self, embeddings1: Array, embeddings2: Array) -> Array:
        """Return the similarities of corresponding rows, `(n,)`; by default, these are cosines."""
        similarity = self._encoder.similarity
        if similarity is None:
            return pairwise_cos_sim(embeddings1, embeddings2)
        first, second = _normalized(similarity, embeddings1, embeddings2)
        similarities: torch.Tensor = similarity.pairwise(first, second)

        return similarities


def _normalized(similarity: Similarity, *sides: Array) -> list[torch.Tensor]:
    """Return the vectors of each side as tensors, normalised by the similarity."""
    return [similarity.normalize(torch.as_tensor(vectors)) for vectors in sides]


def text_task(metadata: TaskMetadata, prompt_type: PromptType | None) -> TextTask:
    """Return a task's name and type, the side (query or document), and the instruction of texts.

    If the task has no instruction of its own, mteb's instruction for tasks of its type is taken.
    """
    side: Literal["", "query", "document"] = ""
    if prompt_type is not None:
        side = prompt_type.value
    prompt = metadata.prompt
    if not prompt:
        instruction = get_abstask_prompt(metadata.name)
    elif isinstance(prompt, str):
        instruction = prompt
    else:
        # Often only queries have an instruction: documents then get none.
        instruction = str(prompt.get(side, ""))

    return TextTask(metadata.name, str(metadata.type), side, instruction)


def model_meta(
    name: str,
    revision: str,
    width: int | None = None,
    max_tokens: int | None = None,
) -> ModelMeta:
    """Return mteb's description of an encoder: dense vectors of texts, compared by cosine."""
    return ModelMeta.create_empty(
        {
            "name": name,
            "revision": revision,
            "embed_dim": width,
            "max_tokens": max_tokens,
            "similarity_fn_name": ScoringFunction.COSINE,
            "framework": ["PyTorch"],
        }
    )


def described(encoder: TextEncoder, name: str) -> ModelMeta:
    """Return mteb's description of `encoder`, with its width and its limit of tokens as far as they are known.

    `name` has the form `OWNER/NAME`. The revision is a hash of all that determines the vectors.
    """
    width = max_tokens = revision = None
    if isinstance(encoder, Encoder):
        width = encoder.width
        max_tokens = encoder.recipe.max_length
        revision = fingerprint_of(encoder)
    if revision is None:
        # mteb caches results by name and revision: an encoder that cannot be identified is given none of another.
        revision = secrets.token_hex(16)
    return model_meta(name, revision, width, max_tokens)


def _texts(inputs: Iterable[Any], task: str) -> list[str]:
    """Return the texts of all batches; raises `DataError` if mteb's batches have other data than texts."""
    texts: list[str] = []
    for batch in inputs:
        if "text" not in batch:
            raise DataError(
                f"mteb's task `{task}` gives {listed(batch)}, but an encoder of "
                f"sentbed reads `text`; choose a task of texts"
            )
        texts += batch["text"]
    return texts
