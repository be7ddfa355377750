"""Comparison of an encoder's vectors with those of sentence-transformers, on export and on import."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sentbed_interop._torch.compared_texts import LONG, SENTENCES

if TYPE_CHECKING:
    from sentbed import Encoder
    from sentence_transformers import SentenceTransformer


def difference(encoder: Encoder, model: SentenceTransformer) -> float:
    """Return the largest difference of the vectors of a few texts, relative to their largest value.

    It is NaN if a vector has NaN.
    """
    texts = [*SENTENCES, LONG]
    if encoder.recipe.resolved_prompt is not None:
        # Under a prompt, the two truncate texts at different tokens, and sentbed strips their ends.
        truncated = encoder.backbone.tokenizer.truncate(
            SENTENCES, encoder.recipe.max_length
        )
        texts = [text.rstrip() for text in truncated]

    expected = encoder.encode(texts)
    vectors = model.encode(texts, show_progress_bar=False)
    return float(np.abs(expected - vectors).max() / np.abs(expected).max())
