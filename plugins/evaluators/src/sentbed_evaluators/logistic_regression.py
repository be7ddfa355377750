"""Logistic regression that is trained to convergence, by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sentbed_evaluators.classifier_dataclasses import (
    Done,
    Examples,
    Fitted,
    Task,
    predict,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ITERATIONS = 10_000
"""Largest number of iterations, far more than embeddings need. If it is reached, scikit-learn warns."""

TOLERANCE = 1e-6
"""Tolerance of the gradient. With scikit-learn's default of 1e-4, accuracies (x 100) on vectors of length 1 were
wrong by up to 0.9."""

FLOAT64_BYTES = 1 << 30
"""Largest size in bytes that a task's training features may have in float64. Larger features stay in float32,
with a tolerance of 1e-5."""


def fit(
    examples: Examples,
    classes: int,
    tasks: Sequence[Task],
    seed: int,
    done: Done,
) -> list[Fitted]:
    """Train the classifiers of all tasks; the penalties of a task are values of scikit-learn's C.

    Each classifier of a task starts from the solution for the previous penalty. That changes only the time, since
    the minimum is unique.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    fitted = []
    for task in tasks:
        features = examples.features[task.train]
        tolerance = 10 * TOLERANCE
        if 2 * features.nbytes <= FLOAT64_BYTES:
            features = features.astype(np.float64)
            tolerance = TOLERANCE

        labels = examples.labels[task.train]
        model = LogisticRegression(
            random_state=seed,
            tol=tolerance,
            max_iter=ITERATIONS,
            warm_start=True,
        )
        development = examples.features[task.development]
        gold = examples.labels[task.development]
        weights, correct = [], []
        for penalty in task.penalties:
            model.set_params(C=penalty).fit(features, labels)
            weights.append(_weights(model, features.shape[1], classes))
            predicted = predict(development, weights[-1])
            correct.append(int((predicted == gold).sum()))
            done(1)
        fitted.append(Fitted(np.stack(weights), np.array(correct)))
    return fitted


def _weights(
    model: Any,
    width: int,
    classes: int,
) -> NDArray[np.float32]:
    """Return the weights `(width + 1, classes)` of a model; the last row is the bias.

    A class that no training label has gets a bias of minus infinity, so that it is never predicted.
    """
    import numpy as np

    coefficients, bias, present = model.coef_, model.intercept_, model.classes_
    if len(present) == 2:
        coefficients = np.concatenate([-coefficients, coefficients])
        bias = np.concatenate([-bias, bias])
    weights = np.zeros((width + 1, classes), np.float32)
    weights[-1] = -np.inf
    weights[:-1, present] = coefficients.T
    weights[-1, present] = bias
    return weights
