"""Data classes shared by both classifier trainers: examples, settings, tasks, fitted weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Done: TypeAlias = Callable[[int], None]
"""Called with the number of classifiers that have just been trained."""


@attrs.frozen(eq=False)
class Examples:
    """What a classifier is trained or scored on."""

    features: NDArray[np.float32]
    """`(n, width)`."""
    labels: NDArray[np.int64]
    """`(n,)`, classes from 0."""

    def __len__(self) -> int:
        return len(self.labels)


@attrs.frozen
class Training:
    """How one classifier is trained."""

    optimizer: Literal["adam", "rmsprop"]
    """With torch's default learning rate and coefficients."""
    batch_size: int
    tenacity: int
    """How many looks may be no better than the best one; the next ends the training. Never counted anew."""
    epoch_size: int
    """Epochs between two looks."""
    max_epoch: int
    seed: int


@attrs.frozen(eq=False)
class Task:
    """Rows to train on and rows to look at; one classifier is trained for each penalty."""

    train: NDArray[np.int64]
    """Rows of the training examples, in the order in which the classifier is given them."""
    look: NDArray[np.int64]
    """Rows of the examples that are looked at."""
    penalties: tuple[float, ...]
    """The penalty of each classifier, in the unit of the protocol."""
    drawn: int = 0
    """Length of a permutation that was drawn before the first epoch's; 0 for none."""


@attrs.frozen(eq=False)
class Fitted:
    """The classifiers of one task."""

    weights: NDArray[np.float32]
    """`(penalties, width + 1, classes)`, the bias last."""
    correct: NDArray[np.int64]
    """`(penalties,)`: rows of `look` that are classified correctly."""


def predict(features: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the class of each row of `features` `(n, width)` under `weights` `(width + 1, classes)`."""
    found: NDArray[np.int64] = (features @ weights[:-1] + weights[-1]).argmax(axis=1)
    return found
