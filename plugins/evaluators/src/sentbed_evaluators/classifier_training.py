"""Training of classifiers on frozen embeddings: choosing the penalty, training and scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from sentbed import DataError

from sentbed_evaluators import logistic_regression
from sentbed_evaluators.classifier_dataclasses import (
    Examples,
    Fitted,
    Task,
    Training,
    predict,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Classifier", "Examples", "Outcome", "Progress"]

Progress: TypeAlias = Callable[[int, int], None]
"""Callback that is called with the number of finished fits and the number of all fits."""

Rows: TypeAlias = "NDArray[np.int64]"

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)
"""L2 penalties to try with `senteval`, as weight decay."""

STRENGTHS = {
    "nested": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "folded": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    "split": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
}
"""Method of `Classifier` -> inverse penalties C to try with `logistic`, as in SentEval with scikit-learn."""

HELD_OUT = 0.05
"""Share of the training examples that `senteval` holds out when it trains a classifier with the chosen penalty.
The held-out examples decide when that training stops."""


@attrs.frozen(eq=False)
class Outcome:
    """The test accuracy and the predictions of a trained classifier."""

    accuracy: float
    """Accuracy on the test examples, x 100, two decimals; in a cross-validation, the mean over the folds."""
    development: float
    """Accuracy of the chosen penalty on the development examples, x 100, two decimals. The penalty was chosen by
    it."""
    predicted: NDArray[np.int64]
    """`(n,)`: predicted class of each test example. In a cross-validation, every example is a test example of
    the fold in which it is held out."""
    folds: NDArray[np.int64] | None = None
    """`(n,)`: fold in which each example was held out for its prediction; None if the predictions are for a test
    set."""


@attrs.frozen
class Classifier:
    """Logistic regression on embeddings, under one of two protocols.

    `senteval` is SentEval's classifier in PyTorch, as SimCSE's scripts use it: no hidden layer, Adam (`test`)
    or RMSprop (`fast`). Every few epochs it is evaluated on the development examples, and the best weights are
    kept. The sixth (`fast`: fourth) evaluation without improvement ends the training, whether or not these
    evaluations follow each other. All fits of a cross-validation are trained together; each has the same result
    as if it were trained alone.

    `logistic` is scikit-learn's `LogisticRegression`, trained to convergence, with the same folds. C is chosen
    from the values that SentEval tries when it uses scikit-learn.
    """

    protocol: Literal["senteval", "logistic"] = "senteval"
    mode: Literal["test", "fast"] = "test"
    """`test` has 10 folds. `fast` has 5 folds and, for `senteval`, a shorter training (SimCSE's `--mode`)."""
    seed: int = 1111
    """Seed of folds, initial weights and order of the batches. SentEval's is 1111."""
    device: str = "cpu"
    """Torch device on which `senteval` trains."""

    @property
    def suffix(self) -> str:
        """Suffix of a score's protocol id: empty for `senteval`, the classifier of the published scores."""
        return "" if self.protocol == "senteval" else f"-{self.protocol}"

    @property
    def folds(self) -> int:
        """The number of folds of a cross-validation."""
        return 10 if self.mode == "test" else 5

    def nested(
        self,
        data: Examples,
        classes: int,
        progress: Progress | None = None,
    ) -> Outcome:
        """Train and test by nested cross-validation, as SentEval does for MR, CR, SUBJ and MPQA.

        In each outer fold, an inner cross-validation on the fold's training examples chooses the penalty. A
        classifier is then trained with this penalty on all these training examples, and tested on the rest.

        Raises:
            DataError: if a class has fewer than `folds + 2` examples.
        """
        import numpy as np

        # If each class has two more examples than there are folds, no inner fold lacks a class.
        self._require(data.labels, self.folds + 2)
        outer = self._folds(data.labels)
        inner = []
        for train, _ in outer:
            # Inner folds are indices of the training rows; they are needed as rows of `data`.
            folds = []
            for rows, held_out in self._folds(data.labels[train]):
                folds.append((train[rows], train[held_out]))
            inner.append(folds)

        number_of_fits = self.folds**2, self.folds
        fits = _Fits(self, "nested", data, data, classes, progress, number_of_fits)
        chosen = fits.choose(inner)
        tasks = []
        for (train, _), (penalty, _) in zip(outer, chosen, strict=True):
            tasks.append((train, penalty))

        predicted = np.empty(len(data), np.int64)
        fold = np.empty_like(predicted)
        accuracies = []
        for number, weights in enumerate(fits.last(tasks)):
            test = outer[number][1]
            predicted[test] = predict(data.features[test], weights)
            fold[test] = number
            accuracies.append(_percent(predicted[test] == data.labels[test]))

        development = np.mean([accuracy for _, accuracy in chosen])
        accuracy = np.mean(accuracies)
        return Outcome(_rounded(accuracy), _rounded(development), predicted, fold)

    def folded(
        self,
        train: Examples,
        test: Examples,
        classes: int,
        progress: Progress | None = None,
        grid: Literal["nested", "folded"] = "folded",
    ) -> Outcome:
        """Choose the penalty by cross-validation on `train`, then train on all of `train` (for TREC and MRPC).

        `grid` is the method whose values of C are tried with `logistic`. `nested` makes the outcome that of one
        outer fold of `nested`.
        """
        import numpy as np

        self._require(train.labels, self.folds)
        number_of_fits = self.folds, 1
        fits = _Fits(self, grid, train, train, classes, progress, number_of_fits)
        [(penalty, score)] = fits.choose([self._folds(train.labels)])
        [weights] = fits.last([(np.arange(len(train)), penalty)])
        predicted = predict(test.features, weights)
        return Outcome(_percent(predicted == test.labels), score, predicted)

    def chosen(
        self,
        train: Examples,
        classes: int,
        progress: Progress | None = None,
        grid: Literal["nested", "folded"] = "folded",
    ) -> Outcome:
        """Return the cross-validated accuracy on `train` of the penalty that `folded` would choose."""
        import numpy as np

        self._require(train.labels, self.folds)
        folds = self._folds(train.labels)
        number_of_fits = self.folds, 0
        fits = _Fits(self, grid, train, train, classes, progress, number_of_fits)
        [(penalty, score)] = fits.choose([folds])
        predicted = np.empty(len(train), np.int64)
        fold = np.empty_like(predicted)
        for number, (_, held_out) in enumerate(folds):
            weights = fits.weights(number, penalty)
            predicted[held_out] = predict(train.features[held_out], weights)
            fold[held_out] = number
        return Outcome(score, score, predicted, fold)

    def first_fold(self, labels: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the training and the test rows of the first outer fold of `nested`.

        Raises `DataError` if a class has fewer than `folds + 2` examples.
        """
        import numpy as np

        self._require(np.array(labels), self.folds + 2)
        train, test = self._folds(np.array(labels))[0]
        return train.tolist(), test.tolist()

    def split(
        self,
        train: Examples,
        development: Examples,
        test: Examples,
        classes: int,
        progress: Progress | None = None,
    ) -> Outcome:
        """Choose the penalty and stop the training by a development set (for SST, probing and SNLI)."""
        import numpy as np

        self._require(train.labels, 1)
        if not len(development) or not len(test):
            raise DataError(
                "the development or the test set has no example; check the splits of the data"
            )
        fits = _Fits(self, "split", train, development, classes, progress, (1, 0))
        rows = np.arange(len(train)), np.arange(len(development))
        # SentEval trains the chosen classifier once more, on the same examples with the same seed, which
        # gives the same weights.
        [(penalty, score)] = fits.choose([[rows]])
        predicted = predict(test.features, fits.weights(0, penalty))
        return Outcome(_percent(predicted == test.labels), score, predicted)

    def _folds(self, labels: Rows) -> list[tuple[Rows, Rows]]:
        """Return training and evaluation rows of each fold, stratified and shuffled as in SentEval."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed)
        return list(folds.split(labels, labels))

    def _require(self, labels: Rows, least: int) -> None:
        """Raise `DataError` unless there are two or more classes, with at least `least` examples each."""
        import numpy as np

        names, counts = np.unique(labels, return_counts=True)
        if len(names) < 2:
            raise DataError(
                f"the {len(labels)} training examples are of {len(names)} class, expected two; add some"
            )
        if counts.min() < least:
            raise DataError(
                f"class {names[counts.argmin()]} has {counts.min()} examples of {len(labels)}, but a "
                f"cross-validation in {self.folds} folds needs {least}; add examples"
            )

    def describe(self) -> dict[str, Any]:
        """Return the description of the classifier for a score's protocol."""
        settings: dict[str, Any] = {
            "protocol": self.protocol,
            "mode": self.mode,
            "folds": self.folds,
            "seed": self.seed,
        }
        if self.protocol == "logistic":
            strengths = {kind: list(values) for kind, values in STRENGTHS.items()}
            return settings | {
                "solver": "lbfgs",
                "tolerance": logistic_regression.TOLERANCE,
                "C": strengths,
            }
        training = attrs.asdict(self.training)
        return (
            settings | {"penalties": list(PENALTIES), "held_out": HELD_OUT} | training
        )

    @property
    def training(self) -> Training:
        """The training settings of the `senteval` protocol."""
        if self.mode == "test":
            return Training(
                "adam",
                64,
                tenacity=5,
                epoch_size=4,
                max_epoch=200,
                seed=self.seed,
            )
        return Training(
            "rmsprop",
            128,
            tenacity=3,
            epoch_size=2,
            max_epoch=200,
            seed=self.seed,
        )


class _Fits:
    """All fits of one outcome: first the fits that choose the penalty, then the fits with the chosen penalty."""

    def __init__(
        self,
        classifier: Classifier,
        kind: Literal["nested", "folded", "split"],
        train: Examples,
        development: Examples,
        classes: int,
        progress: Progress | None,
        number_of_fits: tuple[int, int],
    ) -> None:
        """Prepare fits that are trained on `train` and evaluated on `development`.

        `number_of_fits` has two numbers, for the progress: how many fits each penalty takes while penalties are
        compared, and how many fits follow with the chosen penalty.
        """
        self._classifier, self._classes = classifier, classes
        self._train, self._development = train, development
        self._penalties = STRENGTHS[kind]
        if classifier.protocol == "senteval":
            self._penalties = PENALTIES
        self._progress = progress
        self._total = number_of_fits[0] * len(self._penalties) + number_of_fits[1]
        self._done = 0
        self._fitted: list[Fitted] = []

    def choose(
        self, groups: Sequence[Sequence[tuple[Rows, Rows]]]
    ) -> list[tuple[float, float]]:
        """Return, for each group of folds, the best penalty and its mean accuracy x 100, two decimals."""
        import numpy as np

        tasks = []
        for train, held_out in chain.from_iterable(groups):
            tasks.append(Task(train, held_out, self._penalties))
        self._fitted = self._fit(tasks)

        accuracies = []
        for task, fitted in zip(tasks, self._fitted, strict=True):
            accuracies.append(fitted.correct / len(task.development))

        chosen = []
        start = 0
        for group in groups:
            end = start + len(group)
            means = np.mean(accuracies[start:end], axis=0)
            percents = [_rounded(100 * mean) for mean in means]
            best = int(np.argmax(percents))
            chosen.append((self._penalties[best], percents[best]))
            start = end
        return chosen

    def weights(self, fold: int, penalty: float) -> NDArray[np.float32]:
        """Return the weights that `choose` trained in fold number `fold` with this penalty."""
        number = self._penalties.index(penalty)
        weights: NDArray[np.float32] = self._fitted[fold].weights[number]
        return weights

    def last(self, tasks: Sequence[tuple[Rows, float]]) -> list[NDArray[np.float32]]:
        """Train a classifier for each pair of rows and penalty; return the weights of each."""
        fits = self._fit([self._last_task(rows, penalty) for rows, penalty in tasks])
        return [fitted.weights[0] for fitted in fits]

    def _last_task(self, rows: Rows, penalty: float) -> Task:
        """Return the task of a last fit; `senteval` holds some rows out to stop the training."""
        import numpy as np

        if self._classifier.protocol == "logistic":
            return Task(rows, rows[:0], (penalty,))
        order = np.random.RandomState(self._classifier.seed).permutation(len(rows))
        cut = int(HELD_OUT * len(rows))
        held_out, train = rows[order[:cut]], rows[order[cut:]]
        return Task(train, held_out, (penalty,), held_out_permutation=len(rows))

    def _fit(self, tasks: Sequence[Task]) -> list[Fitted]:
        """Train the classifiers of all tasks by the classifier's protocol."""
        classifier = self._classifier
        if classifier.protocol == "logistic":
            return logistic_regression.fit(
                self._train,
                self._development,
                self._classes,
                tasks,
                classifier.seed,
                self._advance,
            )
        from sentbed_evaluators._torch import batched_logistic_regression

        return batched_logistic_regression.fit(
            self._train,
            self._development,
            self._classes,
            tasks,
            classifier.training,
            classifier.device,
            self._advance,
        )

    def _advance(self, count: int) -> None:
        """Report that `count` more fits are finished."""
        self._done += count
        if self._progress is not None and count:
            self._progress(self._done, self._total)


def _percent(right: NDArray[np.bool_]) -> float:
    """Return the share of true values x 100, two decimals."""
    return round(100 * float(right.mean()), 2)


def _rounded(mean: np.floating[Any]) -> float:
    """Round as NumPy does, not as Python does: SentEval's means are NumPy numbers."""
    return float(round(mean, 2))
