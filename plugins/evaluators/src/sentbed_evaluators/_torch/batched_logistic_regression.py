"""Many logistic regressions trained at once, each as SentEval trains it.

SentEval fits one classifier after the other: 410 for a nested cross-validation of 10 folds and 4 penalties.
Their batches differ only in their rows, so here they take every step together: one batched product for all
folds, with the penalties stacked in its rows. Each fit is unchanged: initial weights, order of the batches,
optimiser, evaluations on the development rows and early stopping are those of SentEval's
`PyTorchClassifier`.
"""

from __future__ import annotations

from collections.abc import Sequence

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

LOOKED = 4096
"""Development rows evaluated in one product."""

GATHERED = 1 << 22
"""Numbers of a batch gathered at a time: more amortise the cost of a call, fewer stay in the cache."""


def fit(
    train: Examples,
    development: Examples,
    classes: int,
    tasks: Sequence[Task],
    training: Training,
    device: str,
    done: Done,
) -> list[Fitted]:
    """Train the classifiers of all tasks on `device`.

    Tasks with equally many training rows are trained together, because SentEval gives them the same
    permutations.
    """
    try:
        data = _Data.of(train, development, device)
    except torch.OutOfMemoryError:
        data = _Data.of(train, development, "cpu")
    groups: dict[tuple[int, int, int], list[int]] = {}
    for place, task in enumerate(tasks):
        groups.setdefault(
            (len(task.train), task.drawn, len(task.penalties)), []
        ).append(place)
    fitted: dict[int, Fitted] = {}
    most = max(1, GATHERED // (training.batch_size * train.features.shape[1]))
    for places in groups.values():
        for start in range(0, len(places), most):
            part = places[start : start + most]
            together = _Together(
                data, classes, [tasks[place] for place in part], training
            )
            fitted |= zip(part, together.run(done), strict=True)
    return [fitted[place] for place in range(len(tasks))]


@attrs.frozen(eq=False)
class _Data:
    features: torch.Tensor
    labels: torch.Tensor
    development_features: torch.Tensor
    development_labels: torch.Tensor

    @classmethod
    def of(cls, train: Examples, development: Examples, device: str) -> _Data:
        placed = _placed(train, device)
        return cls(
            *placed, *(placed if development is train else _placed(development, device))
        )


class _Together:
    """Tasks with equally many training rows, trained in step."""

    def __init__(
        self, data: _Data, classes: int, tasks: Sequence[Task], training: Training
    ) -> None:
        device, width = data.features.device, data.features.shape[1]
        self.data, self.classes, self.training = data, classes, training
        self.generator = np.random.RandomState(training.seed)
        if tasks[0].drawn:
            self.generator.permutation(tasks[0].drawn)
        self.train = torch.from_numpy(np.stack([task.train for task in tasks])).to(
            device
        )
        self.development = [
            torch.from_numpy(task.development).to(device) for task in tasks
        ]
        penalties = torch.tensor([task.penalties for task in tasks], device=device)
        self.penalties = penalties.repeat_interleave(classes, 1)[..., None]
        first = _initial(width, classes, training.seed).to(device)
        self.weights = first.repeat(len(tasks), penalties.shape[1], 1)
        self.moments = [torch.zeros_like(self.weights) for _ in range(2)]
        self.steps = 0

    def run(self, done: Done) -> list[Fitted]:
        """Train until every classifier has stopped."""
        tasks, outputs, _ = self.weights.shape
        shape = (tasks, outputs // self.classes)
        device = self.weights.device
        best = torch.full(shape, -1, device=device)
        kept = self.weights.clone()
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
            chosen = better.repeat_interleave(self.classes, 1)[..., None]
            kept[active] = torch.where(chosen, self.weights, kept[active])
            worse = running[active] & ~better
            ended = worse & (misses[active] >= self.training.tenacity)
            misses[active] += worse.long()
            running[active] &= ~ended
            done(int(ended.sum()))
            left = running[active].any(dim=1)
            if not bool(left.all()):
                active = active[left]
                self.keep(left)
        done(int(running.sum()))
        weights = kept.view(*shape, self.classes, -1).transpose(2, 3).cpu().numpy()
        return [Fitted(weights[i], best[i].cpu().numpy()) for i in range(tasks)]

    def keep(self, left: torch.Tensor) -> None:
        """Keep only the tasks where `left` is true."""
        self.development = [
            rows
            for rows, more in zip(self.development, left.tolist(), strict=True)
            if more
        ]
        self.train, self.penalties, self.weights = (
            self.train[left],
            self.penalties[left],
            self.weights[left],
        )
        self.moments = [moment[left] for moment in self.moments]

    def epoch(self) -> None:
        """Train on all training rows once."""
        order = torch.from_numpy(self.generator.permutation(self.train.shape[1])).to(
            self.train.device
        )
        rows = self.train[:, order]
        for start in range(0, rows.shape[1], self.training.batch_size):
            self.step(rows[:, start : start + self.training.batch_size])

    def step(self, rows: torch.Tensor) -> None:
        """Take one step on rows `(tasks, batch)`: mean cross-entropy plus weight decay."""
        tasks, batch = rows.shape
        inputs = self.data.features.index_select(0, rows.reshape(-1)).view(
            tasks, batch, -1
        )
        labels = self.data.labels.index_select(0, rows.reshape(-1)).view(
            tasks, 1, batch
        )
        logits = torch.baddbmm(
            self.weights[..., -1:], self.weights[..., :-1], inputs.transpose(1, 2)
        )
        errors = _errors(logits.view(tasks, -1, self.classes, batch), labels).view(
            tasks, -1, batch
        )
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
        self.weights.addcdiv_(
            first,
            (second.sqrt() / scale).add_(1e-8),
            value=-1e-3 / (1 - 0.9**self.steps),
        )

    def correct(self) -> torch.Tensor:
        """Return how many development rows each classifier gets right, `(tasks, penalties)`."""
        counts = []
        for weights, rows in zip(self.weights, self.development, strict=True):
            right = torch.zeros(
                len(weights) // self.classes, dtype=torch.long, device=weights.device
            )
            for part in torch.split(rows, LOOKED):
                logits = torch.addmm(
                    weights[:, -1:],
                    weights[:, :-1],
                    self.data.development_features[part].T,
                )
                predicted = logits.view(len(right), self.classes, len(part)).argmax(1)
                right += (predicted == self.data.development_labels[part]).sum(1)
            counts.append(right)
        return torch.stack(counts)


def _placed(examples: Examples, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    # A user's own encoder may return another type or layout.
    features = np.require(examples.features, np.float32, ["C", "W"])
    labels = np.require(examples.labels, np.int64, ["C", "W"])
    return torch.from_numpy(features).to(device), torch.from_numpy(labels).to(device)


def _errors(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the cross-entropy by the logits `(tasks, penalties, classes, batch)`."""
    if logits.shape[2] == 2:
        # Faster than a softmax over two classes.
        error = torch.sigmoid(logits[:, :, 1] - logits[:, :, 0]).sub_(labels)
        return torch.stack((-error, error), dim=2)
    errors = torch.softmax(logits, dim=2)
    shape = (*errors.shape[:2], 1, errors.shape[3])
    return errors.scatter_add_(
        2, labels[:, :, None].expand(shape), errors.new_full((), -1.0).expand(shape)
    )


def _initial(width: int, classes: int, seed: int) -> torch.Tensor:
    """Return the initial weights of torch's linear layer after this seed, `(1, classes, width + 1)`."""
    with torch.random.fork_rng(devices=[]):
        # Not `torch.manual_seed`, which would also reseed a GPU's generator for dropout.
        torch.default_generator.manual_seed(seed)
        layer = torch.nn.Linear(width, classes)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)[None]
