"""Comparison of the vectors that sentence-transformers computes from an exported folder with the encoder's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sentence_transformers import SentenceTransformer

from sentbed_interop._torch.compared_texts import LONG, SENTENCES
from sentbed_interop.other_vectors_error import OtherVectorsError

if TYPE_CHECKING:
    from sentbed import Encoder

TOLERANCE = 1e-5
"""Largest allowed difference, relative to the largest number in the vectors."""

TOLERANCE_OF_LOW_PRECISION = 0.1
"""Largest allowed difference for weights in any other precision than float32.

The encoder then computes in that precision, but the library in float32, so the vectors differ by rounding.
"""


def require_same_vectors(
    encoder: Encoder,
    directory: Path,
    tolerance: float,
) -> None:
    """Raise `OtherVectorsError` if sentence-transformers does not give the encoder's vectors."""
    texts = [*SENTENCES, LONG]
    if encoder.recipe.resolved_prompt is not None:
        # Under a prompt, the two truncate texts at different tokens, and sentbed strips their ends.
        truncated = encoder.backbone.tokenizer.truncate(
            SENTENCES, encoder.recipe.max_length
        )
        texts = [text.rstrip() for text in truncated]

    expected = encoder.encode(texts)
    model = SentenceTransformer(str(directory), device="cpu")
    vectors = model.encode(texts, show_progress_bar=False)
    difference = float(np.abs(expected - vectors).max() / np.abs(expected).max())
    # Also true if a vector has NaN.
    if not difference <= tolerance:
        raise OtherVectorsError(
            f"the folder would give vectors that are {difference:.2g} apart: either the backbone "
            f"`{encoder.recipe.backbone.name}` computes something else than sentence-transformers with the same "
            f"files, or the pooler `{encoder.recipe.pooler.name}` is not what it says; take `--to onnx`"
        )
