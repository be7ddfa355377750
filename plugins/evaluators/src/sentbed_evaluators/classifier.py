"""The classifier on top of frozen embeddings: how it is trained, chosen and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from sentbed import DataError

from sentbed_evaluators import logistic
from sentbed_evaluators.classifier_data import Examples, Fitted, Task, Training, predict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Classifier", "Examples", "Outcome", "Progress"]

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many fits are done and how many there are."""

Rows: TypeAlias = "NDArray[np.int64]"

PENALTIES = tuple(10.0**power for power in range(-5, -1))
"""`senteval`: the L2 penalties that are tried, as weight decay."""

STRENGTHS = {
    "nested": tuple(2.0**power for power in range(-2, 4)),
    "folded": tuple(2.0**power for power in range(-1, 6)),
    "split": tuple(2.0**power for power in range(-2, 4)),
}
"""`logistic`: the inverse penalties C that are tried, as SentEval has them for scikit-learn."""

HELD_OUT = 0.05
"""`senteval`: the share of the training examples by which the last classifier is stopped."""


@attrs.frozen(eq=False)
class Outcome:
    """What a trained classifier reached."""

    accuracy: float
    """On the test examples (mean over the outer folds of a nested cross-validation), x 100, two decimals."""
    development: float
    """The accuracy by which the penalty was chosen, x 100, two decimals."""
    predicted: NDArray[np.int64]
    """`(n,)`: the class of each test example; of a nested cross-validation, of every example, as found by the
    fold that did not train on it."""
    folds: NDArray[np.int64] | None = None
    """`(n,)`: the outer fold of each example of a nested cross-validation."""


@attrs.frozen
class Classifier:
    """Logistic regression on embeddings, under one of two protocols.

    `senteval` is SentEval's classifier in PyTorch, as SimCSE's scripts use it: no hidden layer, Adam (`test`)
    or RMSprop (`fast`), a look at the development examples every few epochs, the best weights kept, and an
    end when a look was no better for the sixth (`fast`: fourth) time, whether or not there were better ones
    in between. All fits of a cross-validation are trained together; each is what it would be alone.

    `logistic` is scikit-learn's `LogisticRegression`, to convergence, with the same folds and C chosen as
    SentEval chooses it where PyTorch is not used.
    """

    protocol: Literal["senteval", "logistic"] = "senteval"
    mode: Literal["test", "fast"] = "test"
    """`test`: 10 folds; `fast`: 5 folds, and for `senteval` a faster training (SimCSE's `--mode`)."""
    seed: int = 1111
    """Of folds, initial weights and order of the batches. SentEval's is 1111."""
    device: str = "cpu"
    """Where the `senteval` protocol computes."""

    @property
    def suffix(self) -> str:
        """What is added to a score's protocol id where it is not the original's classifier."""
        return "" if self.protocol == "senteval" else f"-{self.protocol}"

    @property
    def folds(self) -> int:
        """Folds of a cross-validation."""
        return 10 if self.mode == "test" else 5

    def nested(self, data: Examples, classes: int, progress: Progress | None = None) -> Outcome:
        """Nested cross-validation: MR, CR, SUBJ, MPQA.

        In each outer fold an inner cross-validation picks the penalty; then all of its training examples are
        trained on. Raises `DataError` where a class has too few examples for so many folds.
        """
        import numpy as np

        # With two more than folds, the inner ones do not lack any.
        self._require(data.labels, self.folds + 2)
        outer = self._folds(data.labels)
        inner = [[(train[a], train[b]) for a, b in self._folds(data.labels[train])] for train, _ in outer]
        fits = _Fits(self, "nested", data, data, classes, progress, fits=(self.folds**2, self.folds))
        chosen = fits.choose(inner)
        last = fits.last([(train, penalty) for (train, _), (penalty, _) in zip(outer, chosen, strict=True)])
        predicted, fold = np.empty((2, len(data)), np.int64)
        accuracies = []
        for number, ((_, test), weights) in enumerate(zip(outer, last, strict=True)):
            predicted[test], fold[test] = predict(data.features[test], weights), number
            accuracies.append(_percent(predicted[test] == data.labels[test]))
        return Outcome(
            _rounded(np.mean(accuracies)), _rounded(np.mean([score for _, score in chosen])), predicted, fold
        )

    def folded(
        self, train: Examples, test: Examples, classes: int, progress: Progress | None = None
    ) -> Outcome:
        """Cross-validation on `train` picks the penalty, then all of it is trained on: TREC, MRPC."""
        import numpy as np

        self._require(train.labels, self.folds)
        fits = _Fits(self, "folded", train, train, classes, progress, fits=(self.folds, 1))
        [(penalty, score)] = fits.choose([self._folds(train.labels)])
        [weights] = fits.last([(np.arange(len(train)), penalty)])
        predicted = predict(test.features, weights)
        return Outcome(_percent(predicted == test.labels), score, predicted)

    def split(
        self,
        train: Examples,
        development: Examples,
        test: Examples,
        classes: int,
        progress: Progress | None = None,
    ) -> Outcome:
        """A development set picks the penalty, and ends the training: SST, probing, SNLI."""
        import numpy as np

        self._require(train.labels, 1)
        if not len(development) or not len(test):
            raise DataError("there is no example to choose by or to score; look at the splits of the data")
        fits = _Fits(self, "split", train, development, classes, progress, fits=(1, 0))
        rows = np.arange(len(train)), np.arange(len(development))
        # SentEval trains the chosen one once more, on the same examples with the same seed: it is the same.
        [(penalty, score)] = fits.choose([[rows]])
        predicted = predict(test.features, fits.weights(0, penalty))
        return Outcome(_percent(predicted == test.labels), score, predicted)

    def _folds(self, labels: Rows) -> list[tuple[Rows, Rows]]:
        """Return the rows to train on and to look at in each fold, stratified and shuffled as SentEval's."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed)
        return list(folds.split(labels, labels))

    def _require(self, labels: Rows, least: int) -> None:
        """Raise `DataError` unless there are two classes with so many examples each."""
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
        """Return what a score's protocol says of the classifier."""
        settings: dict[str, Any] = {
            "protocol": self.protocol,
            "mode": self.mode,
            "folds": self.folds,
            "seed": self.seed,
        }
        if self.protocol == "logistic":
            strengths = {kind: list(values) for kind, values in STRENGTHS.items()}
            return settings | {"solver": "lbfgs", "tolerance": logistic.TOLERANCE, "C": strengths}
        training = attrs.asdict(self.training)
        return settings | {"penalties": list(PENALTIES), "held_out": HELD_OUT} | training

    @property
    def training(self) -> Training:
        """How the `senteval` protocol trains one classifier."""
        if self.mode == "test":
            return Training("adam", 64, tenacity=5, epoch_size=4, max_epoch=200, seed=self.seed)
        return Training("rmsprop", 128, tenacity=3, epoch_size=2, max_epoch=200, seed=self.seed)


class _Fits:
    """Trains the classifiers of one outcome, and says how many are done."""

    def __init__(
        self,
        classifier: Classifier,
        kind: Literal["nested", "folded", "split"],
        train: Examples,
        look: Examples,
        classes: int,
        progress: Progress | None,
        fits: tuple[int, int],
    ) -> None:
        self._classifier, self._train, self._look, self._classes = classifier, train, look, classes
        self._penalties = PENALTIES if classifier.protocol == "senteval" else STRENGTHS[kind]
        self._progress = progress
        self._total = fits[0] * len(self._penalties) + fits[1]
        self._done = 0
        self._fitted: list[Fitted] = []

    def choose(self, groups: Sequence[Sequence[tuple[Rows, Rows]]]) -> list[tuple[float, float]]:
        """Return the best penalty of each group of folds, and its accuracy x 100, two decimals."""
        import numpy as np

        folds = [fold for group in groups for fold in group]
        self._fitted = self._fit([Task(train, look, self._penalties) for train, look in folds])
        accuracies = np.array(
            [fitted.correct / len(look) for fitted, (_, look) in zip(self._fitted, folds, strict=True)]
        )
        chosen, start = [], 0
        for group in groups:
            means = [_rounded(100 * mean) for mean in accuracies[start : start + len(group)].mean(axis=0)]
            start += len(group)
            best = int(np.argmax(means))
            chosen.append((self._penalties[best], means[best]))
        return chosen

    def weights(self, fold: int, penalty: float) -> NDArray[np.float32]:
        """Return what `choose` trained in one fold with one penalty."""
        weights: NDArray[np.float32] = self._fitted[fold].weights[self._penalties.index(penalty)]
        return weights

    def last(self, wanted: Sequence[tuple[Rows, float]]) -> list[NDArray[np.float32]]:
        """Train on all of these rows, each with its penalty; return the weights."""
        return [fitted.weights[0] for fitted in self._fit([self._task(*each) for each in wanted])]

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
            return logistic.fit(self._train, self._look, self._classes, tasks, classifier.seed, self._advance)
        from sentbed_evaluators._torch import batched_logistic

        return batched_logistic.fit(
            self._train,
            self._look,
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
    """Round as NumPy does, not Python: SentEval's means are NumPy's numbers."""
    return float(round(mean, 2))
