"""The classifiers against SentEval's way of training one, written out."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from sentbed import DataError
from sentbed_evaluators._torch import batched_logistic_regression
from sentbed_evaluators.classifier_dataclasses import Examples, Task, Training
from sentbed_evaluators.probe import HELD_OUT, PENALTIES, Classifier
from sklearn.model_selection import StratifiedKFold


def blobs(n, classes, width=12, spread=1.5, seed=0):
    """Classes that overlap, so that penalties and early stopping matter."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % classes
    centres = np.random.default_rng(7).normal(size=(classes, width))
    features = centres[labels] + spread * draw.normal(size=(n, width))
    return Examples(features.astype(np.float32), labels.astype(np.int64))


def probe(classifier, kind, classes, *parts, progress=None):
    """Probe parts of data that follow each other in one table, as `Classifier` cuts them."""
    features = np.concatenate([part.features for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    ends = np.cumsum([len(part) for part in parts])
    rows = np.split(np.arange(len(labels)), ends[:-1])
    if kind == "nested":
        rows = []

    folds = getattr(classifier, kind)(labels, *rows)
    examples = Examples(features, labels)
    return classifier.probe(examples, classes, folds, progress)


def train_alone(
    x,
    y,
    dev,
    classes,
    penalty,
    training,
    looks=None,
):
    """SentEval's `PyTorchClassifier`, step by step; returns the model that is kept and its accuracy."""
    np.random.seed(training.seed)
    torch.manual_seed(training.seed)
    model = torch.nn.Linear(x.shape[1], classes)
    optimizer = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[
        training.optimizer
    ](model.parameters())

    optimizer.param_groups[0]["weight_decay"] = penalty
    if dev is None:
        order = np.random.permutation(len(x))
        cut = int(HELD_OUT * len(x))
        dev = x[order[:cut]], y[order[:cut]]
        x, y = x[order[cut:]], y[order[cut:]]

    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    best, kept = -1.0, model
    worse = epochs = 0
    stop = False
    while not stop and epochs <= training.max_epoch:
        for _ in range(training.epoch_size):
            order = np.random.permutation(len(x))
            for start in range(0, len(x), training.batch_size):
                rows = torch.from_numpy(order[start : start + training.batch_size])
                loss = torch.nn.functional.cross_entropy(
                    model(inputs[rows]), labels[rows]
                )

                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        epochs += training.epoch_size
        accuracy = float((predicted_classes(model, dev[0]) == dev[1]).mean())
        if looks is not None:
            looks.append(accuracy)

        if accuracy > best:
            best, kept = accuracy, copy.deepcopy(model)
        else:
            if worse >= training.tenacity:
                stop = True

            worse += 1

    return kept, best


def predicted_classes(model, x):
    with torch.no_grad():
        return model(torch.from_numpy(x)).argmax(1).numpy()


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("mode", "classes"), [("test", 2), ("fast", 2), ("test", 5), ("fast", 3)]
)
def test_three_fits_of_a_batch_are_what_each_is_alone(mode, classes):
    data = blobs(240, classes)
    training = Classifier(mode=mode).training
    folds = list(
        StratifiedKFold(5, shuffle=True, random_state=1111).split(
            data.labels, data.labels
        )
    )

    tasks = [Task(train, dev, PENALTIES) for train, dev in folds]

    fitted = batched_logistic_regression.fit(
        data, classes, tasks, training, "cpu", lambda count: None
    )

    chosen = random.Random(3).sample(
        [(fold, p) for fold in range(5) for p in range(len(PENALTIES))], 3
    )

    for fold, place in chosen:
        train, dev = folds[fold]
        model, accuracy = train_alone(
            data.features[train],
            data.labels[train],
            (data.features[dev], data.labels[dev]),
            classes,
            PENALTIES[place],
            training,
        )

        weights = fitted[fold].weights[place]
        np.testing.assert_allclose(weights[:-1].T, model.weight.detach(), atol=2e-5)
        np.testing.assert_allclose(weights[-1], model.bias.detach(), atol=2e-5)
        assert fitted[fold].correct[place] == round(accuracy * len(dev))


def test_tasks_of_different_lengths_do_not_disturb_each_other():
    data = blobs(150, 2)
    rows = np.arange(150)
    tasks = [Task(rows[:n], rows[120:], PENALTIES[:2]) for n in (100, 101, 100, 64)]
    training = Classifier().training

    together = batched_logistic_regression.fit(
        data, 2, tasks, training, "cpu", lambda count: None
    )

    for task, fitted in zip(tasks, together, strict=True):
        [alone] = batched_logistic_regression.fit(
            data, 2, [task], training, "cpu", lambda count: None
        )

        np.testing.assert_allclose(fitted.weights, alone.weights, atol=1e-6)


def test_the_patience_counter_is_never_reset():
    """Evaluations that are better do not give patience back: the reference, written out, counts as SentEval."""
    data = blobs(90, 2, spread=4.0, seed=1)
    rows = np.arange(90)
    training = Training("adam", 16, tenacity=3, epoch_size=1, max_epoch=200, seed=5)
    task = Task(rows[:60], rows[60:], (1e-5,))

    [fitted] = batched_logistic_regression.fit(
        data, 2, [task], training, "cpu", lambda count: None
    )

    looks = []
    x, y = data.features, data.labels
    model, best = train_alone(
        x[:60], y[:60], (x[60:], y[60:]), 2, 1e-5, training, looks
    )

    np.testing.assert_allclose(
        fitted.weights[0][:-1].T, model.weight.detach(), atol=1e-5
    )

    first_worse = next(i for i in range(1, len(looks)) if looks[i] <= max(looks[:i]))
    assert best > max(looks[: first_worse + 1]), (
        "the example must get better after a worse look"
    )


def test_training_ends_after_the_last_epoch():
    data = blobs(64, 2)
    training = Training("adam", 16, tenacity=10**6, epoch_size=4, max_epoch=20, seed=5)
    rows = np.arange(64)

    [fitted] = batched_logistic_regression.fit(
        data, 2, [Task(rows, rows, (1e-5,))], training, "cpu", lambda count: None
    )

    model, _ = train_alone(
        data.features, data.labels, (data.features, data.labels), 2, 1e-5, training
    )

    np.testing.assert_allclose(
        fitted.weights[0][:-1].T, model.weight.detach(), atol=1e-5
    )


def cut(labels, rows):
    """Training and held-out rows of five folds, as SentEval cuts them."""
    folds = StratifiedKFold(5, shuffle=True, random_state=1111)
    pairs = []
    for train, held_out in folds.split(rows, labels[rows]):
        pairs.append((rows[train], rows[held_out]))

    return pairs


def by_loops(data, classes, folds, training):
    """Accuracy, development accuracy and predictions of classifiers that are trained one after the other."""
    x, y = data.features, data.labels
    accuracies, developments = [], []
    predicted = np.full(len(y), -1)
    for train, test, choices in folds:
        means = []
        for penalty in PENALTIES:
            shares = []
            for a, b in choices:
                dev = x[b], y[b]
                shares.append(
                    train_alone(x[a], y[a], dev, classes, penalty, training)[1]
                )

            means.append(round(100 * np.mean(shares), 2))

        developments.append(max(means))

        penalty = PENALTIES[int(np.argmax(means))]
        dev = None
        if len(choices) == 1:
            dev = x[choices[0][1]], y[choices[0][1]]

        model, _ = train_alone(x[train], y[train], dev, classes, penalty, training)
        predicted[test] = predicted_classes(model, x[test])
        accuracies.append(round(100 * float((predicted[test] == y[test]).mean()), 2))
    # SentEval rounds NumPy's number, which is not always what Python makes of it.
    accuracy = round(np.mean(accuracies), 2)
    return accuracy, round(np.mean(developments), 2), predicted


def part(data, rows):
    return Examples(data.features[rows], data.labels[rows])


@pytest.mark.parametrize(
    ("kind", "classes", "fits"),
    [("nested", 2, 5 * 5 * 4 + 5), ("folded", 3, 5 * 4 + 1), ("split", 2, 4)],
)
def test_a_probe_is_what_loops_give(kind, classes, fits):
    data = blobs(160, classes, spread=2.5)
    rows = np.arange(160)
    train, dev, test = rows[:90], rows[90:120], rows[120:]
    if kind == "nested":
        parts, tested = [rows], rows
        folds = []
        for outer, held_out in cut(data.labels, rows):
            folds.append((outer, held_out, cut(data.labels, outer)))
    elif kind == "folded":
        parts, tested = [rows[:120], test], test
        folds = [(rows[:120], test, cut(data.labels, rows[:120]))]
    else:
        parts, tested = [train, dev, test], test
        folds = [(train, test, [(train, dev)])]

    classifier = Classifier(mode="fast")
    accuracy, development, predicted = by_loops(
        data, classes, folds, classifier.training
    )

    seen = []
    outcome = probe(
        classifier,
        kind,
        classes,
        *(part(data, rows_of_part) for rows_of_part in parts),
        progress=lambda *counts: seen.append(counts),
    )

    assert (outcome.accuracy, outcome.development) == (accuracy, development)
    np.testing.assert_array_equal(outcome.predicted, predicted[tested])
    np.testing.assert_array_equal(outcome.gold, data.labels[tested])
    assert seen[-1] == (fits, fits)
    if kind == "nested":
        sizes = [len(held_out) for _, held_out, _ in folds]
        assert np.bincount(outcome.folds).tolist() == sizes
    else:
        assert outcome.folds is None


def test_so_few_examples_that_none_is_held_out_are_trained_on():
    data = blobs(16, 2)
    outcome = probe(Classifier(mode="fast"), "folded", 2, data, data)
    assert len(outcome.predicted) == 16


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("nested", [0] * 30, "are of 1 class, expected two"),
        ("nested", [0] * 27 + [1] * 3, "class 1 has 3 examples of 30"),
        ("split", [0, 1] * 15, "no example"),
    ],
)
def test_too_few_examples_are_refused(kind, labels, message):
    data = Examples(np.ones((30, 2), np.float32), np.array(labels))
    empty = Examples(data.features[:0], data.labels[:0])
    parts = [data]
    if kind == "split":
        parts = [data, data, empty]

    with pytest.raises(DataError, match=message):
        probe(Classifier(), kind, 2, *parts)


def test_the_seed_of_what_a_gpu_draws_is_left_alone(
    monkeypatch,
):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    before = torch.random.get_rng_state()
    probe(Classifier(), "split", 2, *[blobs(40, 2)] * 3)

    assert seeds == []
    assert torch.equal(torch.random.get_rng_state(), before)
