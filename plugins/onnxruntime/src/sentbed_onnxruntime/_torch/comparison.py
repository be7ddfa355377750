"""Comparison of a graph with the torch module that it was made of."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed_hardware.engine_parts.encoder_module import TraceableEncoder
from sentbed_hardware.engine_parts.encoding_engine import Project

TOLERANCE = 1e-4
"""Largest difference from PyTorch's vectors, relative to the largest value of a batch."""

SHAPES = ((1,), (2, 1), (3, 9, 5, 9, 1), (9, 9, 9), (24, 2))
"""The texts of each batch, by their lengths in tokens: other numbers of rows and tokens than were traced."""


def require_same_vectors(
    project: Project,
    encoder: TraceableEncoder,
    ids: NDArray[np.int32],
    longest: int,
    parts: str,
) -> None:
    """Compare a graph with its module on batches of many shapes, of tokens among `ids`.

    Raises:
        ModelError: if a vector differs, as where a part computes with a size as a number.
    """
    draw = np.random.default_rng(0)
    worst = 0.0
    for lengths in SHAPES:
        fitting = np.minimum(lengths, longest)
        mask = (np.arange(fitting.max()) < fitting[:, None]).astype(np.int64)
        rows = draw.choice(ids, mask.shape).astype(np.int64)
        with torch.inference_mode():
            expected = encoder(torch.from_numpy(rows), torch.from_numpy(mask)).numpy()
        difference = (
            np.abs(project(rows, mask) - expected).max() / np.abs(expected).max()
        )
        worst = float(np.maximum(worst, difference))
    # Also true if a vector has NaN.
    if not worst <= TOLERANCE:
        raise ModelError(
            f"the graph of {parts} gives vectors that differ from PyTorch's by {worst:.1e} of their largest "
            f"value, expected at most {TOLERANCE:g}; use the runtime `cpu`"
        )
