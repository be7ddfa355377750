"""SentEval's supervised relatedness of sentence pairs: a regression, trained as for SICK-R and STS-B."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from sentbed_evaluators.pair_features import FORMULAS, pair_features
from sentbed_evaluators.probe import Progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GRADES = 5
"""Number of classes of the softmax: the grades 1 to 5, even where gold scores begin at 0."""


@attrs.frozen(eq=False)
class EncodedPairs:
    """Sentence pairs with their vectors and gold scores."""

    vectors: tuple[NDArray[np.float32], NDArray[np.float32]]
    """Vectors of the first and of the second sentences, each `(n, width)`."""
    texts: tuple[Sequence[str], Sequence[str]]
    """First and second sentences."""
    scores: Sequence[float]
    """Gold scores from 0 to 5."""


@attrs.frozen
class Relatedness:
    """SentEval's supervised relatedness, as in its `RelatednessPytorch` and `SICKRelatednessEval`.

    The model is a linear layer on the features [|u-v|, u*v] and a softmax over the grades 1 to 5. The target of a
    gold score divides a probability of 1 between the two nearest grades (Tai et al., 2015, section 5.2); for a
    score below 1, the target sums to less than 1. The loss is the mean squared error. Pairs are sorted by their
    numbers of words and their score before they are shuffled. Every 50 epochs, up to 1,050, Pearson's correlation
    on the development pairs is computed. The best weights are kept, and the fourth evaluation without improvement
    ends the training.

    Source: Conneau and Kiela (2018), and their code. SimCSE's fork stops on Spearman's correlation instead.
    """

    seed: int = 1111
    """Seed of the initial weights and of the order of the batches; SentEval's is 1111."""
    device: str = "cpu"

    def describe(self) -> dict[str, Any]:
        """Return the settings of the training, for the protocol of a score."""
        return {
            "protocol": "relatedness",
            "features": FORMULAS["senteval"],
            "grades": GRADES,
            "loss": "mean squared error of the probabilities",
            "optimizer": "adam, 1e-3",
            "batch_size": 64,
            "stop": "pearson",
            "seed": self.seed,
        }

    def predict(
        self,
        train: EncodedPairs,
        development: EncodedPairs,
        test: EncodedPairs,
        progress: Progress | None = None,
    ) -> NDArray[np.float64]:
        """Train on `train`, and return the expected grade of each pair in `test`.

        The scores on `development` decide when the training stops.
        """
        import numpy as np

        from sentbed_evaluators._torch.relatedness_regression import expected_grades

        train, development = in_order(train), in_order(development)
        gold = np.array(development.scores, np.float64)
        return expected_grades(
            features_of(train),
            targets_of(train.scores),
            features_of(development),
            partial(_pearson, gold),
            features_of(test),
            self.seed,
            self.device,
            progress,
        )


def in_order(pairs: EncodedPairs) -> EncodedPairs:
    """Return the pairs, sorted by the number of words of the first and of the second sentence, then by score."""
    first, second = pairs.texts

    def order(row: int) -> tuple[int, int, float]:
        return len(first[row].split()), len(second[row].split()), pairs.scores[row]

    rows = sorted(range(len(pairs.scores)), key=order)
    vectors = pairs.vectors[0][rows], pairs.vectors[1][rows]
    texts = [first[row] for row in rows], [second[row] for row in rows]
    return EncodedPairs(vectors, texts, [pairs.scores[row] for row in rows])


def features_of(pairs: EncodedPairs) -> NDArray[np.float32]:
    """Return the features [|u-v|, u*v] of pairs, `(n, 2 * width)`."""
    return pair_features(*pairs.vectors, "senteval")


def targets_of(scores: Sequence[float]) -> NDArray[np.float32]:
    """Return the target probabilities of the grades 1 to 5 for scores from 0 to 5, `(n, 5)`.

    A score between two grades gives both a probability: 3.8 gives 0.2 to grade 3 and 0.8 to grade 4. There is no
    grade 0: a score of 0.3 gives 0.3 to grade 1, and the other probabilities are 0.
    """
    import numpy as np

    targets = np.zeros((len(scores), GRADES), np.float32)
    for row, score in enumerate(scores):
        lower = int(np.floor(score))
        if lower >= 1:
            targets[row, lower - 1] = lower - score + 1
        if lower < GRADES:
            targets[row, lower] = score - lower
    return targets


def _pearson(gold: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Return Pearson's correlation, or 0 if all gold scores or all expected grades are equal."""
    import numpy as np

    x, y = expected - expected.mean(), gold - gold.mean()
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    if norms == 0.0:
        return 0.0
    return float(x @ y) / norms
