"""Names of similarities in sentence-transformers, which are also their names in sentbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentbed import ModelError

if TYPE_CHECKING:
    from sentbed import Encoder

COSINE = "cosine"
"""Default similarity of sentence-transformers and of sentbed."""

SIMILARITIES = (COSINE, "dot", "euclidean", "manhattan")


def similarity_name(encoder: Encoder) -> str:
    """Return the name of the similarity by which the encoder's texts are compared."""
    if encoder.similarity is None:
        return COSINE
    return encoder.similarity.name


def similarity_of(encoder: Encoder) -> str:
    """Return the name of an encoder's similarity. Raises `ModelError` if sentence-transformers lacks it."""
    name = similarity_name(encoder)
    if name not in SIMILARITIES:
        raise ModelError(
            f"sentence-transformers has no similarity `{name}`, it has {', '.join(SIMILARITIES)}; take "
            "`similarity` out of the encoder's recipe to export its vectors"
        )
    return name
