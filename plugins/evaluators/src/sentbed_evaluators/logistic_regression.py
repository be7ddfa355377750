"""Logistic regression to convergence, by scikit-learn."""

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
"""Largest number of iterations, far more than embeddings need; scikit-learn warns if it is reached."""

TOLERANCE = 1e-6
"""Tolerance of the gradient. With scikit-learn's default, 1e-4, accuracies on vectors of length 1 were off by
up to 0.9."""

FLOAT64_BYTES = 1 << 30
"""Largest size of the features in float64; larger ones stay in float32, which is exact to 1e-5 only."""


def fit(
    train: Examples,
    development: Examples,
    classes: int,
    tasks: Sequence[Task],
    seed: int,
    done: Done,
) -> list[Fitted]:
    """Train the classifiers of all tasks; penalties are scikit-learn's C.

    Within a task, each starts from the solution of the previous penalty: the minimum is unique, and near.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    fitted = []
    for task in tasks:
        features = train.features
        # Features may be a memory map: rows are copied only if not all are taken.
        if not np.array_equal(task.train, np.arange(len(train))):
            features = features[task.train]
        tolerance = 10 * TOLERANCE
        if 2 * features.nbytes <= FLOAT64_BYTES:
            features = features.astype(np.float64)
            tolerance = TOLERANCE
        labels = train.labels[task.train]
        model = LogisticRegression(
            random_state=seed, tol=tolerance, max_iter=ITERATIONS, warm_start=True
        )
        development_features = development.features[task.development]
        gold = development.labels[task.development]
        weights, correct = [], []
        for penalty in task.penalties:
            model.set_params(C=penalty).fit(features, labels)
            weights.append(_weights(model, features.shape[1], classes))
            predicted = predict(development_features, weights[-1])
            correct.append(int((predicted == gold).sum()))
            done(1)
        fitted.append(Fitted(np.stack(weights), np.array(correct)))
    return fitted


def _weights(model: Any, width: int, classes: int) -> NDArray[np.float32]:
    """Return coefficients and bias by class; a class missing from the labels is never predicted."""
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
