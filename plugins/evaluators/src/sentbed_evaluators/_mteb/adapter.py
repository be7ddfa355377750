"""An encoder of sentbed as a model of mteb."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.similarity_functions import cos_sim, pairwise_cos_sim
from sentbed import DataError
from sentbed.protocols import TextEncoder

from sentbed_evaluators.similarity import require_finite, require_nonzero

if TYPE_CHECKING:
    import numpy as np
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.types import Array, BatchedInput, PromptType
    from numpy.typing import NDArray
    from torch.utils.data import DataLoader

_TRAINS_ON_VECTORS = ("Classification", "MultilabelClassification", "Regression")
_PROBES = ["a", "The quick brown fox jumps over the lazy dog.", "one two three " * 1000]
"""Short, plain, and longer than any encoder reads: what is cut off shows too."""


class MTEBModel:
    """What mteb 2 expects of an encoder (`mteb.EncoderProtocol`): vectors by `encode`, compared by cosine.

    mteb's own prompts and the difference between queries and documents are not used: what stands around a
    text is the encoder's business.
    """

    def __init__(self, encoder: TextEncoder, meta: ModelMeta) -> None:
        self._encoder = encoder
        self._meta = meta

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """Name, revision and size, as mteb's results carry them."""
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
        """Return one vector a text, `(n, width)`, in mteb's order.

        The batches are gathered first, so that the encoder sorts all texts by length and encodes each once.
        Where a classifier is trained on the vectors, none may be zero.
        """
        texts = _texts(inputs, task_metadata.name)
        if task_metadata.type in _TRAINS_ON_VECTORS:
            return require_nonzero(self._encoder.encode(texts), texts)
        return require_finite(self._encoder.encode(texts), texts)

    def similarity(self, embeddings1: Array, embeddings2: Array) -> Array:
        """Return the cosine of each row of one with each row of the other, `(n, m)`."""
        return cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Array, embeddings2: Array) -> Array:
        """Return the cosine of each pair of rows, `(n,)`."""
        return pairwise_cos_sim(embeddings1, embeddings2)


def model_meta(
    name: str, revision: str, width: int | None = None, max_tokens: int | None = None
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
    """Return mteb's description of `encoder`, with what it says of itself; `name` is `OWNER/NAME`."""
    recipe = getattr(encoder, "recipe", None)
    width = (
        getattr(encoder, "width", None) or require_finite(encoder.encode(_PROBES[:1]), _PROBES[:1]).shape[1]
    )
    return model_meta(name, _revision(encoder), width, getattr(recipe, "max_length", None))


def _texts(inputs: Iterable[Any], task: str) -> list[str]:
    texts: list[str] = []
    for batch in inputs:
        if "text" not in batch:
            raise DataError(
                f"mteb's task `{task}` gives {', '.join(f'`{key}`' for key in batch)}, but an encoder of "
                f"sentbed reads `text`; choose a task of texts"
            )
        texts += batch["text"]
    return texts


def _revision(encoder: Any) -> str:
    """Return a hash that two encoders share only where they give the same vectors.

    mteb keeps results by name and revision: with the same revision, one encoder would get another's. It is
    over everything that decides the vectors where the encoder can tell, else over some vectors.
    """
    space = encoder.space() if hasattr(encoder, "space") else None
    if space is not None:
        return str(space.name)
    return hashlib.sha256(require_finite(encoder.encode(_PROBES), _PROBES).tobytes()).hexdigest()
