"""Training of classifiers on frozen embeddings: choice of the penalty, and scoring."""

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
"""Callback with the number of finished fits and the total."""

Rows: TypeAlias = "NDArray[np.int64]"

PENALTIES = tuple(10.0**power for power in range(-5, -1))
"""L2 penalties to try with `senteval`, as weight decay."""

STRENGTHS = {
    "nested": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "folded": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    "split": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
}
"""Inverse penalties C to try with `logistic`, as in SentEval with scikit-learn."""

HELD_OUT = 0.05
"""Share of the training examples held out to stop the last classifier, with `senteval`."""


@attrs.frozen(eq=False)
class Outcome:
    """The test accuracy and the predictions of a trained classifier."""

    accuracy: float
    """Accuracy on the test examples (mean over the outer folds if nested), x 100, two decimals."""
    development: float
    """Development accuracy of the chosen penalty, by which it was chosen, x 100, two decimals."""
    predicted: NDArray[np.int64]
    """`(n,)`: predicted class of each test example; in a nested cross-validation, of every example, by the
    classifier of the fold in which it is held out."""
    folds: NDArray[np.int64] | None = None
    """`(n,)`: outer fold of each example in a nested cross-validation."""


@attrs.frozen
class Classifier:
    """Logistic regression on embeddings, under one of two protocols.

    `senteval` is SentEval's classifier in PyTorch, as SimCSE's scripts use it: no hidden layer, Adam (`test`)
    or RMSprop (`fast`), an evaluation on the development examples every few epochs, the best weights kept,
    and an end at the sixth (`fast`: fourth) evaluation without improvement, consecutive or not. All fits of a
    cross-validation are trained together; each gives the same result as alone.

    `logistic` is scikit-learn's `LogisticRegression`, to convergence, with the same folds; C is chosen as in
    SentEval without PyTorch.
    """

    protocol: Literal["senteval", "logistic"] = "senteval"
    mode: Literal["test", "fast"] = "test"
    """`test`: 10 folds; `fast`: 5 folds, and for `senteval` a faster training (SimCSE's `--mode`)."""
    seed: int = 1111
    """Seed of folds, initial weights and order of the batches. SentEval's is 1111."""
    device: str = "cpu"
    """Torch device of the `senteval` protocol."""

    @property
    def suffix(self) -> str:
        """The suffix of a score's protocol id if the classifier is not the original's."""
        return "" if self.protocol == "senteval" else f"-{self.protocol}"

    @property
    def folds(self) -> int:
        """The number of folds of a cross-validation."""
        return 10 if self.mode == "test" else 5

    def nested(
        self, data: Examples, classes: int, progress: Progress | None = None
    ) -> Outcome:
        """Nested cross-validation: MR, CR, SUBJ, MPQA.

        In each outer fold, an inner cross-validation picks the penalty; then a classifier is trained on all
        of its training examples. Raises `DataError` if a class has too few examples for so many folds.
        """
        import numpy as np

        # With two more examples than folds, no inner fold lacks a class.
        self._require(data.labels, self.folds + 2)
        outer = self._folds(data.labels)
        inner = []
        for train, _ in outer:
            folds = self._folds(data.labels[train])
            inner.append([(train[rows], train[held_out]) for rows, held_out in folds])

        number_of_fits = self.folds**2, self.folds
        fits = _Fits(self, "nested", data, data, classes, progress, number_of_fits)
        chosen = fits.choose(inner)
        tasks = []
        for (train, _), (penalty, _) in zip(outer, chosen, strict=True):
            tasks.append((train, penalty))

        predicted, fold = np.empty((2, len(data)), np.int64)
        accuracies = []
        for number, weights in enumerate(fits.last(tasks)):
            test = outer[number][1]
            predicted[test] = predict(data.features[test], weights)
            fold[test] = number
            accuracies.append(_percent(predicted[test] == data.labels[test]))
        development = _rounded(np.mean([score for _, score in chosen]))
        return Outcome(_rounded(np.mean(accuracies)), development, predicted, fold)

    def folded(
        self,
        train: Examples,
        test: Examples,
        classes: int,
        progress: Progress | None = None,
    ) -> Outcome:
        """Pick the penalty by cross-validation on `train`, then train on all of it: TREC, MRPC."""
        import numpy as np

        self._require(train.labels, self.folds)
        number_of_fits = self.folds, 1
        fits = _Fits(self, "folded", train, train, classes, progress, number_of_fits)
        [(penalty, score)] = fits.choose([self._folds(train.labels)])
        [weights] = fits.last([(np.arange(len(train)), penalty)])
        predicted = predict(test.features, weights)
        return Outcome(_percent(predicted == test.labels), score, predicted)

    def chosen(
        self, train: Examples, classes: int, progress: Progress | None = None
    ) -> Outcome:
        """Return the cross-validated accuracy on `train` of the penalty that `folded` would pick."""
        import numpy as np

        self._require(train.labels, self.folds)
        folds = self._folds(train.labels)
        number_of_fits = self.folds, 0
        fits = _Fits(self, "folded", train, train, classes, progress, number_of_fits)
        [(penalty, score)] = fits.choose([folds])
        predicted, fold = np.empty((2, len(train)), np.int64)
        for number, (_, held_out) in enumerate(folds):
            weights = fits.weights(number, penalty)
            predicted[held_out] = predict(train.features[held_out], weights)
            fold[held_out] = number
        return Outcome(score, score, predicted, fold)

    def first_fold(self, labels: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
        """Return the training and the test rows of the first outer fold of `nested`.

        Raises `DataError` if a class has too few examples for so many folds.
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
        """Pick the penalty and stop training by a development set: SST, probing, SNLI."""
        import numpy as np

        self._require(train.labels, 1)
        if not len(development) or not len(test):
            raise DataError(
                "there is no example to choose by or to score; check the splits of the data"
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
        """Raise `DataError` unless there are two classes with at least `least` examples each."""
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
        """Return the classifier's part of a score's protocol."""
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
                "adam", 64, tenacity=5, epoch_size=4, max_epoch=200, seed=self.seed
            )
        return Training(
            "rmsprop", 128, tenacity=3, epoch_size=2, max_epoch=200, seed=self.seed
        )


class _Fits:
    """The fits of one outcome: the first choose the penalty, the last are trained with it."""

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
        """Prepare fits on `train`, evaluated on `development`.

        `number_of_fits` is that of the choice, for each penalty, and that of the last fits.
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
        """Return the best penalty of each group of folds, and its accuracy x 100, two decimals."""
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
        """Return the weights that `choose` trained in one fold with one penalty."""
        number = self._penalties.index(penalty)
        weights: NDArray[np.float32] = self._fitted[fold].weights[number]
        return weights

    def last(self, tasks: Sequence[tuple[Rows, float]]) -> list[NDArray[np.float32]]:
        """Train once on each set of rows, with its penalty; return the weights."""
        fits = self._fit([self._task(rows, penalty) for rows, penalty in tasks])
        return [fitted.weights[0] for fitted in fits]

    def _task(self, rows: Rows, penalty: float) -> Task:
        import numpy as np

        if self._classifier.protocol == "logistic":
            return Task(rows, rows[:0], (penalty,))
        order = np.random.RandomState(self._classifier.seed).permutation(len(rows))
        cut = int(HELD_OUT * len(rows))
        return Task(rows[order[cut:]], rows[order[:cut]], (penalty,), drawn=len(rows))

    def _fit(self, tasks: Sequence[Task]) -> list[Fitted]:
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
        self._done += count
        if self._progress is not None and count:
            self._progress(self._done, self._total)


def _percent(right: NDArray[np.bool_]) -> float:
    return round(100 * float(right.mean()), 2)


def _rounded(mean: np.floating[Any]) -> float:
    """Round as NumPy does, not as Python does: SentEval's means are NumPy numbers."""
    return float(round(mean, 2))
