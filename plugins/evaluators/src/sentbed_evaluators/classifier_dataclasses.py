"""Data classes of classifiers: examples, training settings, tasks and fitted weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "NDArray[np.int64]"
"""Indices of examples."""

Done: TypeAlias = Callable[[int], None]
"""Callback that is called with the number of classifiers that have just been trained."""


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
    """Number of evaluations without improvement that are allowed in total. One more ends the training."""
    epoch_size: int
    """Number of epochs between two evaluations."""
    max_epoch: int
    seed: int


@attrs.frozen(eq=False)
class Task:
    """The rows to train on and the rows to evaluate on; one classifier is trained for each penalty."""

    train: Rows
    """Indices of the training examples, in the order in which the classifier gets them."""
    development: Rows
    """Indices of the development examples on which the classifier is evaluated."""
    penalties: tuple[float, ...]
    """Penalty of each classifier, as weight decay."""
    held_out_permutation: int = 0
    """Length of the permutation by which rows were held out; 0 if no rows were held out. The permutation is drawn
    again before that of the first epoch, since SentEval draws both from one generator."""


@attrs.frozen(eq=False)
class Fitted:
    """The trained classifiers of one task."""

    weights: NDArray[np.float32]
    """`(penalties, width + 1, classes)`; the last of the `width + 1` rows is the bias."""
    correct: NDArray[np.int64]
    """`(penalties,)`: number of examples in `Task.development` that are classified correctly."""


def predict(
    features: NDArray[np.float32], weights: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return the class of each row of `features` `(n, width)` under `weights` `(width + 1, classes)`."""
    classes: NDArray[np.int64] = (features @ weights[:-1] + weights[-1]).argmax(axis=1)
    return classes
