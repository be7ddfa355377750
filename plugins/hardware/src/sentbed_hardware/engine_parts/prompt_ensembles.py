"""Training with several prompts per text: the vectors of a text under each prompt become one vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sentbed.protocols import Training


def texts_per_row(training: Training, tower: str) -> int:
    """Return the number of texts that a tower encodes for each row of a column: one for each of its prompts."""
    return training.ensembles.get(tower, (1, "mean"))[0]


def combine_prompts(
    training: Training,
    tower: str,
    vectors: Any,
) -> Any:
    """Return one vector per row: the mean or the concatenation of its vectors under a tower's prompts.

    `vectors` has the shape `(prompts * rows, width)`: all rows under the first prompt, then all rows under the
    second prompt, and so on. It is a tensor, or an array of another library.
    """
    count, how = training.ensembles.get(tower, (1, "mean"))
    if count == 1:
        return vectors

    width = vectors.shape[1]
    parts = vectors.reshape(count, -1, width)
    if how == "mean":
        return parts.mean(0)

    return parts.swapaxes(0, 1).reshape(-1, count * width)


def vector_widths(training: Training, encoders: Mapping[str, Any]) -> dict[str, int]:
    """Return the width of the vectors that the loss gets from each encoder."""
    widths = {}
    for name, encoder in encoders.items():
        count, how = training.ensembles.get(name, (1, "mean"))
        widths[name] = int(encoder.trained_width)
        if how == "concatenate":
            widths[name] *= count

    return widths
