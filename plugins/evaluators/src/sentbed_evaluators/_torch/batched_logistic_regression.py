"""Many logistic regressions trained at once, each as SentEval trains it.

SentEval fits one classifier after the other: 410 for a nested cross-validation of 10 folds and 4 penalties.
The fits differ only in the rows of their batches and in the penalty. Here all of them take each step together,
in one batched matrix product. It has one matrix per task (such as a fold, with its own training and development
rows), in which the weights of all penalties are stacked. The result of each fit is the same as if it ran alone:
initial weights, order of the batches, optimiser, evaluations on the development rows and early stopping are those
of SentEval's `PyTorchClassifier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import torch

from sentbed_evaluators.classifier_dataclasses import (
    Done,
    Examples,
    Fitted,
    Task,
    Training,
)

EVALUATED_ROWS = 4096
"""Largest number of development rows that are evaluated by one matrix product."""

FEATURES_PER_STEP = 1 << 22
"""Largest number of feature values (rows x width, over the batches of all tasks) in one training step.

A higher limit needs fewer calls of torch; under a lower one, the values stay in the processor's cache. A single
task may exceed it.
"""


def fit(
    examples: Examples,
    classes: int,
    tasks: Sequence[Task],
    training: Training,
    device: str,
    done: Done,
) -> list[Fitted]:
    """Train the classifiers of all tasks on `device`, or on the CPU if the device has no room for the features.

    Tasks with the same number of training rows are trained together, since SentEval puts their rows into the
    same random order.
    """
    try:
        features, labels = _on_device(examples, device)
    except torch.OutOfMemoryError:
        features, labels = _on_device(examples, "cpu")

    places_by_shape: dict[tuple[int, int, int], list[int]] = {}
    for place, task in enumerate(tasks):
        shape = len(task.train), task.held_out_permutation, len(task.penalties)
        places_by_shape.setdefault(shape, []).append(place)

    fitted_by_place: dict[int, Fitted] = {}
    features_per_batch = training.batch_size * features.shape[1]
    largest_group = max(1, FEATURES_PER_STEP // features_per_batch)
    for places_of_shape in places_by_shape.values():
        for start in range(0, len(places_of_shape), largest_group):
            places = places_of_shape[start : start + largest_group]
            tasks_of_group = [tasks[place] for place in places]
            group = _TaskGroup(features, labels, classes, tasks_of_group, training)
            fitted_by_place.update(zip(places, group.run(done), strict=True))
    return [fitted_by_place[place] for place in range(len(tasks))]


class _EarlyStopping:
    """The best weights of each classifier so far, and which classifiers are still trained.

    All tensors have the tasks of a group as first dimension, and are `(tasks, penalties)` unless stated
    otherwise.
    """

    def __init__(
        self,
        weights: torch.Tensor,
        classes: int,
        tenacity: int,
    ) -> None:
        tasks, outputs, _ = weights.shape
        shape = (tasks, outputs // classes)
        device = weights.device
        self.classes, self.tenacity = classes, tenacity
        self.best_weights = weights.clone()
        """`(tasks, penalties * classes, width + 1)`."""
        self.best_correct = torch.full(shape, -1, device=device)
        """Number of development rows that the best weights classify correctly."""
        self.misses = torch.zeros(shape, dtype=torch.long, device=device)
        """Number of evaluations without improvement so far, whether or not they follow each other."""
        self.is_running = torch.ones(shape, dtype=torch.bool, device=device)

    def update(
        self,
        active: torch.Tensor,
        weights: torch.Tensor,
        correct: torch.Tensor,
    ) -> int:
        """Record the weights of the tasks with the indices `active`, and how many rows they classify correctly.

        Return the number of classifiers whose training ends now.
        """
        is_running = self.is_running[active]
        best_correct = self.best_correct[active]
        is_better = is_running & (correct > best_correct)
        self.best_correct[active] = torch.where(is_better, correct, best_correct)

        is_better_row = is_better.repeat_interleave(self.classes, 1)[..., None]
        best_weights = self.best_weights[active]
        self.best_weights[active] = torch.where(is_better_row, weights, best_weights)

        is_miss = is_running & ~is_better
        ends = is_miss & (self.misses[active] >= self.tenacity)
        self.misses[active] += is_miss.long()
        self.is_running[active] = is_running & ~ends
        return int(ends.sum())

    def fitted(self) -> list[Fitted]:
        """Return the best classifiers of each task."""
        shape = (*self.best_correct.shape, self.classes, -1)
        weights = self.best_weights.view(shape).transpose(2, 3).cpu().numpy()
        correct = self.best_correct.cpu().numpy()
        return list(map(Fitted, weights, correct))


class _TaskGroup:
    """Tasks with equal numbers of training rows and of penalties, which take each training step together."""

    def __init__(
        self,
        features: torch.Tensor,
        labels: torch.Tensor,
        classes: int,
        tasks: Sequence[Task],
        training: Training,
    ) -> None:
        device, width = features.device, features.shape[1]
        self.features, self.labels = features, labels
        self.classes, self.training = classes, training

        self.generator = np.random.RandomState(training.seed)
        held_out_permutation = tasks[0].held_out_permutation
        if held_out_permutation:
            # SentEval draws the held-out rows and the order of each epoch from one generator. The first draw is
            # repeated here, so that the following ones are the same.
            self.generator.permutation(held_out_permutation)

        train = np.stack([task.train for task in tasks])
        self.train = torch.from_numpy(train).to(device)
        """Indices of the training rows, `(tasks, rows)`."""
        self.development = []
        """Indices of the development rows of each task, `(rows,)`."""
        for task in tasks:
            self.development.append(torch.from_numpy(task.development).to(device))

        penalties = torch.tensor([task.penalties for task in tasks], device=device)
        self.penalties = penalties.repeat_interleave(classes, 1)[..., None]
        """`(tasks, penalties * classes, 1)`."""
        initial = _initial_weights(width, classes, training.seed).to(device)
        self.weights = initial.repeat(len(tasks), penalties.shape[1], 1)
        """`(tasks, penalties * classes, width + 1)`; the bias is last."""
        zeros = torch.zeros_like(self.weights)
        self.moments = [zeros, zeros.clone()]
        """First and second moments of the gradients, each of the shape of `weights`."""
        self.steps = 0

    def run(self, done: Done) -> list[Fitted]:
        """Train until every classifier has stopped or `max_epoch` is exceeded.

        Return the best weights of each classifier.
        """
        tenacity = self.training.tenacity
        stopping = _EarlyStopping(self.weights, self.classes, tenacity)
        active = torch.arange(len(self.weights), device=self.weights.device)
        epochs = 0
        # As in SentEval, the last round of epochs may exceed `max_epoch`.
        while len(active) and epochs <= self.training.max_epoch:
            for _ in range(self.training.epoch_size):
                self.epoch()
            epochs += self.training.epoch_size

            ended = stopping.update(active, self.weights, self.correct())
            done(ended)

            is_active = stopping.is_running[active].any(dim=1)
            if not bool(is_active.all()):
                active = active[is_active]
                self.keep(is_active)

        done(int(stopping.is_running.sum()))
        return stopping.fitted()

    def keep(self, is_active: torch.Tensor) -> None:
        """Keep the active tasks only: those with a classifier that has not stopped."""
        self.development = list(compress(self.development, is_active.tolist()))
        self.train = self.train[is_active]
        self.penalties = self.penalties[is_active]
        self.weights = self.weights[is_active]
        self.moments = [moment[is_active] for moment in self.moments]

    def epoch(self) -> None:
        """Train on all training rows once."""
        order = self.generator.permutation(self.train.shape[1])
        rows = self.train[:, torch.from_numpy(order).to(self.train.device)]
        for start in range(0, rows.shape[1], self.training.batch_size):
            self.step(rows[:, start : start + self.training.batch_size])

    def step(self, rows: torch.Tensor) -> None:
        """Take one training step on rows `(tasks, batch)`; the loss is mean cross-entropy plus weight decay."""
        tasks, batch = rows.shape
        flat_rows = rows.reshape(-1)
        inputs = self.features.index_select(0, flat_rows).view(tasks, batch, -1)
        labels = self.labels.index_select(0, flat_rows).view(tasks, 1, batch)

        bias, weights = self.weights[..., -1:], self.weights[..., :-1]
        logits = torch.baddbmm(bias, weights, inputs.transpose(1, 2))
        logits = logits.view(tasks, -1, self.classes, batch)
        errors = _errors(logits, labels).view(tasks, -1, batch)

        gradient = self.weights * self.penalties
        gradient[..., :-1].baddbmm_(errors, inputs, alpha=1 / batch)
        gradient[..., -1].add_(errors.sum(2), alpha=1 / batch)
        self.update(gradient)

    def update(self, gradient: torch.Tensor) -> None:
        """Update the weights by Adam or RMSprop, with torch's default learning rate and coefficients."""
        self.steps += 1
        first, second = self.moments
        if self.training.optimizer == "rmsprop":
            second.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            self.weights.addcdiv_(gradient, second.sqrt().add_(1e-8), value=-0.01)
            return
        first.lerp_(gradient, 0.1)
        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        scale = (1 - 0.999**self.steps) ** 0.5
        denominator = (second.sqrt() / scale).add_(1e-8)
        rate = 1e-3 / (1 - 0.9**self.steps)
        self.weights.addcdiv_(first, denominator, value=-rate)

    def correct(self) -> torch.Tensor:
        """Return the number of development rows that each classifier gets right, `(tasks, penalties)`."""
        counts = []
        for task_weights, rows in zip(self.weights, self.development, strict=True):
            bias, weights = task_weights[:, -1:], task_weights[:, :-1]
            penalties = len(weights) // self.classes
            count = torch.zeros(penalties, dtype=torch.long, device=weights.device)
            for part in torch.split(rows, EVALUATED_ROWS):
                logits = torch.addmm(bias, weights, self.features[part].T)
                by_class = logits.view(penalties, self.classes, len(part))
                is_correct = by_class.argmax(1) == self.labels[part]
                count += is_correct.sum(1)
            counts.append(count)
        return torch.stack(counts)


def _on_device(examples: Examples, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels as tensors on a device."""
    # A user's own encoder may return another type or memory layout.
    features = np.require(examples.features, np.float32, ["C", "W"])
    labels = np.require(examples.labels, np.int64, ["C", "W"])
    return torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device)


def _errors(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the gradient of each row's cross-entropy with respect to its logits.

    Logits and gradient have the shape `(tasks, penalties, classes, batch)`.
    """
    if logits.shape[2] == 2:
        # Faster than a softmax over two classes.
        error = torch.sigmoid(logits[:, :, 1] - logits[:, :, 0]).sub_(labels)
        return torch.stack((-error, error), dim=2)
    errors = torch.softmax(logits, dim=2)
    tasks, penalties, _, batch = errors.shape
    shape = (tasks, penalties, 1, batch)
    minus_one = errors.new_full((), -1.0).expand(shape)
    return errors.scatter_add_(2, labels[:, :, None].expand(shape), minus_one)


def _initial_weights(
    width: int,
    classes: int,
    seed: int,
) -> torch.Tensor:
    """Return the weights with which torch initialises a linear layer under a seed, `(1, classes, width + 1)`."""
    with torch.random.fork_rng(devices=[]):
        # Not `torch.manual_seed`, which would also reseed a GPU's generator for dropout.
        torch.default_generator.manual_seed(seed)
        layer = torch.nn.Linear(width, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)[None]
