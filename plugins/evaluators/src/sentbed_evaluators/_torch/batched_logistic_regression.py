"""Many logistic regressions trained at once, each as SentEval trains it.

SentEval fits one classifier after the other: 410 for a nested cross-validation of 10 folds and 4 penalties.
Their batches differ only in their rows. Here they take every step together, by one batched matrix product
with the weights of all penalties stacked in its rows. Each fit is unchanged: initial weights, order of the
batches, optimiser, evaluations on the development rows and early stopping are those of SentEval's
`PyTorchClassifier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import attrs
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
"""Number of development rows that are evaluated by one matrix product."""

BATCH_NUMBERS = 1 << 22
"""Largest number of features in the joined batches of one step: more save calls, fewer stay in the cache."""


def fit(
    train: Examples,
    development: Examples,
    classes: int,
    tasks: Sequence[Task],
    training: Training,
    device: str,
    done: Done,
) -> list[Fitted]:
    """Train the classifiers of all tasks on `device`, or on the CPU if the features do not fit there.

    Tasks with equally many training rows are trained together, because SentEval gives them the same
    permutations.
    """
    try:
        data = _Data.of(train, development, device)
    except torch.OutOfMemoryError:
        data = _Data.of(train, development, "cpu")

    groups: dict[tuple[int, int, int], list[int]] = {}
    for number, task in enumerate(tasks):
        key = len(task.train), task.drawn, len(task.penalties)
        groups.setdefault(key, []).append(number)

    fitted: dict[int, Fitted] = {}
    most = max(1, BATCH_NUMBERS // (training.batch_size * train.features.shape[1]))
    for numbers in groups.values():
        for start in range(0, len(numbers), most):
            part = numbers[start : start + most]
            tasks_of_part = [tasks[number] for number in part]
            group = _TaskGroup(data, classes, tasks_of_part, training)
            fitted |= zip(part, group.run(done), strict=True)
    return [fitted[number] for number in range(len(tasks))]


@attrs.frozen(eq=False)
class _Data:
    """The training and the development examples on a device."""

    features: torch.Tensor
    labels: torch.Tensor
    development_features: torch.Tensor
    development_labels: torch.Tensor

    @classmethod
    def of(cls, train: Examples, development: Examples, device: str) -> _Data:
        """Return the examples as tensors on `device`; equal ones are there once."""
        features, labels = _on_device(train, device)
        if development is train:
            return cls(features, labels, features, labels)
        return cls(features, labels, *_on_device(development, device))


class _TaskGroup:
    """Tasks with equally many training rows, trained in step."""

    def __init__(
        self, data: _Data, classes: int, tasks: Sequence[Task], training: Training
    ) -> None:
        device, width = data.features.device, data.features.shape[1]
        self.data, self.classes, self.training = data, classes, training
        self.generator = np.random.RandomState(training.seed)
        if tasks[0].drawn:
            self.generator.permutation(tasks[0].drawn)
        train = np.stack([task.train for task in tasks])
        self.train = torch.from_numpy(train).to(device)
        self.development = []
        for task in tasks:
            self.development.append(torch.from_numpy(task.development).to(device))
        penalties = torch.tensor([task.penalties for task in tasks], device=device)
        self.penalties = penalties.repeat_interleave(classes, 1)[..., None]
        first = _initial_weights(width, classes, training.seed).to(device)
        self.weights = first.repeat(len(tasks), penalties.shape[1], 1)
        zeros = torch.zeros_like(self.weights)
        self.moments = [zeros, zeros.clone()]
        self.steps = 0

    def run(self, done: Done) -> list[Fitted]:
        """Train until every classifier has stopped; return the best weights of each."""
        tasks, outputs, _ = self.weights.shape
        shape = (tasks, outputs // self.classes)
        device = self.weights.device
        best = torch.full(shape, -1, device=device)
        best_weights = self.weights.clone()
        misses = torch.zeros(shape, dtype=torch.long, device=device)
        running = torch.ones(shape, dtype=torch.bool, device=device)
        active = torch.arange(tasks, device=device)
        epochs = 0
        while len(active) and epochs <= self.training.max_epoch:
            for _ in range(self.training.epoch_size):
                self.epoch()
            epochs += self.training.epoch_size

            correct = self.correct()
            better = running[active] & (correct > best[active])
            best[active] = torch.where(better, correct, best[active])
            is_better = better.repeat_interleave(self.classes, 1)[..., None]
            best_weights[active] = torch.where(
                is_better, self.weights, best_weights[active]
            )

            worse = running[active] & ~better
            ended = worse & (misses[active] >= self.training.tenacity)
            misses[active] += worse.long()
            running[active] &= ~ended
            done(int(ended.sum()))

            is_active = running[active].any(dim=1)
            if not bool(is_active.all()):
                active = active[is_active]
                self.keep(is_active)

        done(int(running.sum()))
        by_penalty = best_weights.view(*shape, self.classes, -1)
        weights = by_penalty.transpose(2, 3).cpu().numpy()
        correct_of_best = best.cpu().numpy()
        return list(map(Fitted, weights, correct_of_best))

    def keep(self, is_active: torch.Tensor) -> None:
        """Drop the tasks whose classifiers have all stopped."""
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
        """Take one step on rows `(tasks, batch)`: mean cross-entropy plus weight decay."""
        tasks, batch = rows.shape
        flat_rows = rows.reshape(-1)
        inputs = self.data.features.index_select(0, flat_rows).view(tasks, batch, -1)
        labels = self.data.labels.index_select(0, flat_rows).view(tasks, 1, batch)

        bias, weights = self.weights[..., -1:], self.weights[..., :-1]
        logits = torch.baddbmm(bias, weights, inputs.transpose(1, 2))
        logits = logits.view(tasks, -1, self.classes, batch)
        errors = _errors(logits, labels).view(tasks, -1, batch)

        gradient = self.weights * self.penalties
        gradient[..., :-1].baddbmm_(errors, inputs, alpha=1 / batch)
        gradient[..., -1].add_(errors.sum(2), alpha=1 / batch)
        self.update(gradient)

    def update(self, gradient: torch.Tensor) -> None:
        """Apply Adam or RMSprop with torch's defaults."""
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
        """Return how many development rows each classifier gets right, `(tasks, penalties)`."""
        features = self.data.development_features
        labels = self.data.development_labels
        counts = []
        for weights, rows in zip(self.weights, self.development, strict=True):
            penalties = len(weights) // self.classes
            right = torch.zeros(penalties, dtype=torch.long, device=weights.device)
            for part in torch.split(rows, EVALUATED_ROWS):
                logits = torch.addmm(weights[:, -1:], weights[:, :-1], features[part].T)
                by_class = logits.view(penalties, self.classes, len(part))
                right += (by_class.argmax(1) == labels[part]).sum(1)
            counts.append(right)
        return torch.stack(counts)


def _on_device(examples: Examples, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels on a device."""
    # A user's own encoder may return another type or layout.
    features = np.require(examples.features, np.float32, ["C", "W"])
    labels = np.require(examples.labels, np.int64, ["C", "W"])
    return torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device)


def _errors(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the cross-entropy by the logits, `(tasks, penalties, classes, batch)`."""
    if logits.shape[2] == 2:
        # Faster than a softmax over two classes.
        error = torch.sigmoid(logits[:, :, 1] - logits[:, :, 0]).sub_(labels)
        return torch.stack((-error, error), dim=2)
    errors = torch.softmax(logits, dim=2)
    tasks, penalties, _, batch = errors.shape
    shape = (tasks, penalties, 1, batch)
    minus_one = errors.new_full((), -1.0).expand(shape)
    return errors.scatter_add_(2, labels[:, :, None].expand(shape), minus_one)


def _initial_weights(width: int, classes: int, seed: int) -> torch.Tensor:
    """Return the initial weights of torch's linear layer after this seed, `(1, classes, width + 1)`."""
    with torch.random.fork_rng(devices=[]):
        # Not `torch.manual_seed`, which would also reseed a GPU's generator for dropout.
        torch.default_generator.manual_seed(seed)
        layer = torch.nn.Linear(width, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)[None]
