"""Features of a sentence pair, computed from the embeddings of its two sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PairFeatures: TypeAlias = Literal["senteval", "infersent"]

FORMULAS: dict[PairFeatures, str] = {
    "senteval": "[|u-v|, u*v]",
    "infersent": "[u, v, u*v, |u-v|]",
}
"""The features as formulas, for the protocol of a score."""


def pair_features(
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    kind: PairFeatures,
) -> NDArray[np.float32]:
    """Return the features of pairs, `(n, 2 * width)` or `(n, 4 * width)`, from their vectors `(n, width)`.

    `senteval` is SentEval's formula for MRPC. `infersent` is SentEval's formula for NLI (Conneau et al., 2017).
    The evaluator `sentglue` uses `infersent` for all tasks of pairs, since Sentence-T5 (section 8) does not print
    its formula.
    """
    import numpy as np

    product, distance = first * second, np.abs(first - second)
    if kind == "senteval":
        return np.concatenate((distance, product), axis=1)
    return np.concatenate((first, second, product, distance), axis=1)
