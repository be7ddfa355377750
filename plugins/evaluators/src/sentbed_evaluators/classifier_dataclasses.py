"""Data classes that both trainers of classifiers share: examples, settings, tasks, fitted weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Done: TypeAlias = Callable[[int], None]
"""Callback with the number of classifiers that have just been trained."""


@attrs.frozen(eq=False)
class Examples:
    """The examples that a classifier is trained or scored on."""

    features: NDArray[np.float32]
    """`(n, width)`."""
    labels: NDArray[np.int64]
    """`(n,)`, classes from 0."""

    def __len__(self) -> int:
        return len(self.labels)


@attrs.frozen
class Training:
    """The training settings of a classifier."""

    optimizer: Literal["adam", "rmsprop"]
    """Optimiser, with torch's default learning rate and coefficients."""
    batch_size: int
    tenacity: int
    """Evaluations without improvement that are allowed, in total; the next one ends the training."""
    epoch_size: int
    """Epochs between two evaluations."""
    max_epoch: int
    seed: int


@attrs.frozen(eq=False)
class Task:
    """Rows to train on and rows to evaluate on; a classifier is trained for each penalty."""

    train: NDArray[np.int64]
    """Rows of the training examples, in the classifier's order."""
    development: NDArray[np.int64]
    """Rows of the development examples to evaluate on."""
    penalties: tuple[float, ...]
    """Penalty of each classifier: weight decay for `senteval`, C for `logistic`."""
    drawn: int = 0
    """Length of a permutation to draw before the first epoch's permutation; 0: none is drawn."""


@attrs.frozen(eq=False)
class Fitted:
    """The classifiers of one task."""

    weights: NDArray[np.float32]
    """`(penalties, width + 1, classes)`, the bias last."""
    correct: NDArray[np.int64]
    """`(penalties,)`: number of rows of `development` classified correctly."""


def predict(
    features: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return the class of each row of `features` `(n, width)` under `weights` `(width + 1, classes)`."""
    classes: NDArray[np.int64] = (features @ weights[:-1] + weights[-1]).argmax(axis=1)
    return classes
