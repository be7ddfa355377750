"""The vectors of an encoder with several prompts in training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentbed.protocols import Training


def texts_a_row(training: Training, tower: str) -> int:
    """Return how many texts a row of a column of this tower has, one a prompt."""
    return training.ensembles.get(tower, (1, "mean"))[0]


def joined(training: Training, tower: str, vectors: Any) -> Any:
    """Return one vector a row, the mean or the concatenation of those of a tower's prompts.

    `vectors`, `(prompts * rows, width)`, are those of all rows under the first prompt, then under the second,
    and so on; a tensor of any library.
    """
    count, how = training.ensembles.get(tower, (1, "mean"))
    if count == 1:
        return vectors
    width = vectors.shape[1]
    parts = vectors.reshape(count, -1, width)
    return parts.mean(0) if how == "mean" else parts.swapaxes(0, 1).reshape(-1, count * width)


def widths(training: Training, encoders: Mapping[str, Any]) -> dict[str, int]:
    """Return the width of what a loss sees of each encoder."""
    times = {name: count if how == "concatenate" else 1 for name, (count, how) in training.ensembles.items()}
    return {name: int(encoder.trained_width) * times.get(name, 1) for name, encoder in encoders.items()}
