"""The classifier on top of frozen embeddings: how it is trained, chosen and scored."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many fits are done and how many there are."""


@attrs.frozen(eq=False)
class Examples:
    """What a classifier is trained or scored on."""

    features: NDArray[np.float32]
    """`(n, width)`."""
    labels: NDArray[np.int64]
    """`(n,)`, classes from 0."""

    def __len__(self) -> int:
        return len(self.labels)


@attrs.frozen(eq=False)
class Outcome:
    """What a trained classifier reached."""

    accuracy: float
    """On the test examples (mean over the outer folds of a nested cross-validation), x 100."""
    development: float
    """The accuracy by which the penalty was chosen, x 100."""
    predicted: NDArray[np.int64]
    """`(n,)`: the class of each test example; of a nested cross-validation, of every example, as found by the
    fold that did not train on it."""


@attrs.frozen
class Classifier:
    """Logistic regression on embeddings, under one of two protocols."""

    protocol: Literal["senteval", "logistic"] = "senteval"
    mode: Literal["test", "fast"] = "test"
    seed: int = 1111
    device: str = "cpu"
    """Where the `senteval` protocol computes."""

    def nested(self, data: Examples, classes: int, progress: Progress | None = None) -> Outcome:
        """Nested cross-validation: MR, CR, SUBJ, MPQA."""
        raise NotImplementedError

    def folded(
        self, train: Examples, test: Examples, classes: int, progress: Progress | None = None
    ) -> Outcome:
        """Cross-validation on `train` picks the penalty, then all of it is trained on: TREC, MRPC."""
        raise NotImplementedError

    def split(
        self,
        train: Examples,
        development: Examples,
        test: Examples,
        classes: int,
        progress: Progress | None = None,
    ) -> Outcome:
        """A development set picks the penalty: SST, probing, SNLI."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return what a score's protocol says of the classifier."""
        raise NotImplementedError
