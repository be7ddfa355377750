"""Classifiers on frozen vectors: which rows they are trained and tested on, how their penalty is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs
from sentbed import DataError

from sentbed_evaluators.classifier_dataclasses import (
    Done,
    Examples,
    Fitted,
    Rows,
    Task,
    Training,
    predict,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Progress: TypeAlias = Callable[[int, int], None]
"""Callback that is called with the number of finished fits and the number of all fits."""

PENALTIES: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)
"""L2 penalties to try, as weight decay."""

HELD_OUT = 0.05
"""Share of the training examples that are held out when a classifier is trained with the chosen penalty.
They decide when that training stops."""


@attrs.frozen(eq=False)
class Fold:
    """The rows on which a classifier is trained and tested, and those by which its penalty is chosen."""

    train: Rows
    test: Rows | None
    """None if the classifiers of `choices` are tested, each on the rows that it is compared on."""
    choices: Sequence[tuple[Rows, Rows]]
    """Rows to train on, and rows to compare the penalties on. The best mean accuracy decides."""

    @property
    def trains_again(self) -> bool:
        """Whether a classifier is trained on `train` with the chosen penalty.

        SentEval also does so after a single choice on all of `train`, with the same seed, which gives the same
        weights.
        """
        return self.test is not None and len(self.choices) > 1


@attrs.frozen(eq=False)
class Outcome:
    """The accuracy and the predictions of the trained classifiers."""

    accuracy: float
    """Accuracy on the test rows, x 100, two decimals; the mean over the folds."""
    development: float
    """Accuracy by which the penalty was chosen, x 100, two decimals; the mean over the folds."""
    predicted: NDArray[np.int64]
    """`(n,)`: predicted class of each test row, in the order of the rows."""
    gold: NDArray[np.int64]
    """`(n,)`: its class."""
    folds: NDArray[np.int64] | None = None
    """`(n,)`: number of the classifier that predicted the row; None if there is one classifier."""


@attrs.frozen
class Classifier:
    """SentEval's classifier in PyTorch, as SimCSE's scripts use it: logistic regression on embeddings.

    It has no hidden layer, and Adam (`test`) or RMSprop (`fast`). Every few epochs it is evaluated on the
    development examples, and the best weights are kept. The sixth (`fast`: fourth) evaluation without improvement
    ends the training, whether or not these evaluations follow each other. All fits of a cross-validation are
    trained together; each has the same result as if it were trained alone.
    """

    mode: Literal["test", "fast"] = "test"
    """`test` has 10 folds. `fast` has 5 folds and a shorter training (SimCSE's `--mode`)."""
    seed: int = 1111
    """Seed of folds, initial weights and order of the batches. SentEval's is 1111."""
    device: str = "cpu"
    """Torch device of the training."""

    @property
    def folds(self) -> int:
        """The number of folds of a cross-validation."""
        return 10 if self.mode == "test" else 5

    def nested(self, labels: NDArray[np.int64]) -> list[Fold]:
        """Return the folds of a nested cross-validation, as SentEval does for MR, CR, SUBJ and MPQA.

        In each, a cross-validation on the training rows chooses the penalty.
        Raises `DataError` if a class has fewer than `folds + 2` examples.
        """
        import numpy as np

        # If each class has two more examples than there are folds, no inner fold lacks a class.
        _require(labels, self.folds + 2, self.folds)
        folds = []
        for train, test in self.cut(labels, np.arange(len(labels))):
            folds.append(Fold(train, test, self.cut(labels, train)))
        return folds

    def folded(
        self,
        labels: NDArray[np.int64],
        train: Rows,
        test: Rows | None,
    ) -> list[Fold]:
        """Return one fold, whose penalty is chosen by cross-validation on `train` (for TREC and MRPC)."""
        _require(labels[train], self.folds, self.folds)
        return [Fold(train, test, self.cut(labels, train))]

    def split(
        self,
        labels: NDArray[np.int64],
        train: Rows,
        development: Rows,
        test: Rows,
    ) -> list[Fold]:
        """Return one fold, whose penalty is chosen on a development set (for SST, probing and SNLI)."""
        _require(labels[train], 1, self.folds)
        if not len(development) or not len(test):
            raise DataError(
                "the development or the test set has no example; check the splits of the data"
            )
        return [Fold(train, test, [(train, development)])]

    def cut(self, labels: NDArray[np.int64], rows: Rows) -> list[tuple[Rows, Rows]]:
        """Return training and held-out rows of each fold of `rows`, stratified and shuffled as in SentEval."""
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed)
        cut = []
        for train, held_out in folds.split(rows, labels[rows]):
            cut.append((rows[train], rows[held_out]))
        return cut

    def probe(
        self,
        examples: Examples,
        classes: int,
        folds: Sequence[Fold],
        progress: Progress | None = None,
    ) -> Outcome:
        """Choose the penalty in each fold, train with it, and test."""
        import numpy as np

        comparisons = []
        for fold in folds:
            for train, held_out in fold.choices:
                comparisons.append(Task(train, held_out, PENALTIES))
        again = sum(fold.trains_again for fold in folds)
        done = _counter(progress, len(comparisons) * len(PENALTIES) + again)
        compared = iter(self._fit(examples, classes, comparisons, done))

        developments = []
        last_tasks = []
        # The rows and the weights of each test; None stands for weights that are trained last.
        tests: list[tuple[Rows, NDArray[np.float32] | None]] = []
        for fold in folds:
            fitted = [next(compared) for _ in fold.choices]
            best, accuracy = _best_penalty(fold, fitted)
            developments.append(accuracy)
            if fold.test is None:
                for (_, held_out), of_fold in zip(fold.choices, fitted, strict=True):
                    tests.append((held_out, of_fold.weights[best]))
            elif fold.trains_again:
                tests.append((fold.test, None))
                last_tasks.append(self._last_task(fold.train, PENALTIES[best]))
            else:
                tests.append((fold.test, fitted[0].weights[best]))
        last = iter(self._fit(examples, classes, last_tasks, done))

        trained = []
        for rows, of_choice in tests:
            weights = of_choice
            if weights is None:
                weights = next(last).weights[0]
            trained.append((rows, weights))
        development = _rounded(np.mean(developments))
        outcome = _outcome(examples, trained, development)
        if folds[0].test is None:
            return attrs.evolve(outcome, accuracy=development)
        return outcome

    def _last_task(self, rows: Rows, penalty: float) -> Task:
        """Return the task of the fit with the chosen penalty; some rows are held out to stop it."""
        import numpy as np

        order = np.random.RandomState(self.seed).permutation(len(rows))
        cut = int(HELD_OUT * len(rows))
        held_out, train = rows[order[:cut]], rows[order[cut:]]
        return Task(train, held_out, (penalty,), held_out_permutation=len(rows))

    def _fit(
        self,
        examples: Examples,
        classes: int,
        tasks: Sequence[Task],
        done: Done,
    ) -> list[Fitted]:
        """Train the classifiers of all tasks."""
        from sentbed_evaluators._torch import batched_logistic_regression

        return batched_logistic_regression.fit(
            examples, classes, tasks, self.training, self.device, done
        )

    def describe(self) -> dict[str, Any]:
        """Return the description of the classifier for a score's protocol."""
        return {
            "protocol": "senteval",
            "mode": self.mode,
            "folds": self.folds,
            "penalties": list(PENALTIES),
            "held_out": HELD_OUT,
            **attrs.asdict(self.training),
        }

    @property
    def training(self) -> Training:
        """The training settings."""
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


def _require(labels: NDArray[np.int64], least: int, folds: int) -> None:
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
            f"cross-validation in {folds} folds needs {least}; add examples"
        )


def _counter(progress: Progress | None, total: int) -> Done:
    """Return a callback that adds up finished fits and reports them."""
    finished = 0

    def done(count: int) -> None:
        nonlocal finished
        finished += count
        if progress is not None and count:
            progress(finished, total)

    return done


def _outcome(
    examples: Examples,
    trained: Sequence[tuple[Rows, NDArray[np.float32]]],
    development: float,
) -> Outcome:
    """Test each classifier, given by its weights, on its rows."""
    import numpy as np

    predictions = []
    accuracies = []
    lengths = []
    for rows, weights in trained:
        predicted = predict(examples.features[rows], weights)
        predictions.append(predicted)
        accuracies.append(_percent(predicted == examples.labels[rows]))
        lengths.append(len(rows))

    tested = np.concatenate([rows for rows, _ in trained])
    order = np.argsort(tested)
    folds = None
    if len(trained) > 1:
        folds = np.repeat(np.arange(len(trained)), lengths)[order]
    return Outcome(
        _rounded(np.mean(accuracies)),
        development,
        np.concatenate(predictions)[order],
        examples.labels[tested[order]],
        folds,
    )


def _best_penalty(fold: Fold, fitted: Sequence[Fitted]) -> tuple[int, float]:
    """Return the place of the best penalty, and its mean accuracy x 100 over the choices, two decimals."""
    import numpy as np

    shares = []
    for (_, held_out), of_choice in zip(fold.choices, fitted, strict=True):
        shares.append(of_choice.correct / len(held_out))
    percents = [_rounded(100 * mean) for mean in np.mean(shares, axis=0)]
    best = int(np.argmax(percents))
    return best, percents[best]


def _percent(right: NDArray[np.bool_]) -> float:
    """Return the share of true values x 100, two decimals."""
    return round(100 * float(right.mean()), 2)


def _rounded(mean: np.floating[Any]) -> float:
    """Round as NumPy does, not as Python does: SentEval's means are NumPy numbers."""
    return float(round(mean, 2))
