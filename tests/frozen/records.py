"""What a room yields: numbers that are frozen, and numbers that an outside source computes now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs
import numpy as np

Value = int | float | str | list

EQUAL = 0.0
"""Tolerance of ids, seeds, folds, counts and words."""

VECTORS = 1e-5
"""Tolerance of vectors: kernels of other processors add in another order, which 1e-6 of the norm in float32."""


class SkippedError(Exception):
    """A room cannot be computed on this machine; the message says why."""


@attrs.frozen
class Number:
    """A number of today, held against the one in `frozen.json`."""

    key: str
    value: Value
    tolerance: float = EQUAL
    """Largest deviation, as a share of the largest magnitude of the value; 0 means equal."""


@attrs.frozen
class Compared:
    """A number of ours, held against what an outside source computes now."""

    key: str
    value: Value
    reference: Value
    source: str
    tolerance: float = EQUAL


def deviation(expected: Value, value: Value, tolerance: float) -> float:
    """Return the difference of two values as a share of the tolerance; infinite where shapes differ."""
    if value == expected:
        return 0.0
    if tolerance == EQUAL or isinstance(value, str) or isinstance(expected, str):
        return np.inf
    if np.shape(value) != np.shape(expected):
        return np.inf
    largest = np.abs(expected).max() or 1.0
    difference = np.abs(np.subtract(value, expected)).max()
    return float(difference / largest / tolerance)


def vector_numbers(key: str, vectors: np.ndarray) -> Iterator[Number]:
    """Yield few numbers that tell vectors `(count, width)` from others: first components, norm, a product."""
    vectors = np.asarray(vectors, np.float64)
    direction = np.cos(np.arange(vectors.shape[1]))
    summary = np.column_stack(
        [
            vectors[:, :4],
            np.linalg.norm(vectors, axis=1),
            vectors @ direction,
        ]
    )
    yield Number(key, summary.tolist(), VECTORS)


def ragged_list(ids: Sequence[int], offsets: Sequence[int]) -> list[list[int]]:
    """Return the ids of each text as a list."""
    rows = []
    for start, end in pairwise(offsets):
        rows.append([int(i) for i in ids[start:end]])
    return rows
