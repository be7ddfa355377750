"""SentEval's regression of relatedness: a softmax over five grades, trained on features of pairs."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

DevelopmentScore = Callable[[NDArray[np.float64]], float]
"""Function that scores the expected grades of the development pairs, `(n,)`; higher is better."""

BATCH_SIZE = 64

EPOCH_SIZE = 50
"""Epochs between two evaluations on the development pairs."""

MAX_EPOCH = 1000

TENACITY = 3
"""Number of evaluations without improvement that are allowed in total. One more ends the training."""


class RelatednessRegression:
    """A linear layer and a softmax over the grades 1, 2, ...; the output is the expected grade.

    The loss is the mean squared error between the probabilities and their targets. The optimiser is Adam with
    learning rate 1e-3, batches of 64 and no weight decay. Everything is as in SentEval's `RelatednessPytorch`:
    NumPy draws the order of the batches and PyTorch the initial weights, under the same seed.
    """

    def __init__(
        self,
        width: int,
        grades: int,
        seed: int,
        device: str,
    ) -> None:
        self.device = device
        self.grades = np.arange(1, grades + 1)
        self.generator = np.random.RandomState(seed)
        with torch.random.fork_rng(devices=[]):
            # Not `torch.manual_seed`, which would also reseed a GPU's generator for dropout.
            torch.default_generator.manual_seed(seed)
            layer = torch.nn.Linear(width, grades)
        self.model = torch.nn.Sequential(layer, torch.nn.Softmax(dim=-1)).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def fit(
        self,
        features: NDArray[np.float32],
        targets: NDArray[np.float32],
        development: NDArray[np.float32],
        development_score: DevelopmentScore,
        progress: Callable[[int, int], None] | None = None,
    ) -> float:
        """Train on features `(n, width)` and targets `(n, grades)`, and keep the best weights.

        Every 50 epochs, the grades of the features `development` are predicted and scored. The weights with the
        highest score are kept, and that score is returned. `progress` is called with the number of epochs so far
        and the largest possible number.
        """
        inputs = torch.from_numpy(features).to(self.device)
        outputs = torch.from_numpy(targets).to(self.device)
        best, best_model = -1.0, self.model
        epochs, misses, stopped = 0, 0, False

        while not stopped and epochs <= MAX_EPOCH:
            for _ in range(EPOCH_SIZE):
                self._epoch(inputs, outputs)
            epochs += EPOCH_SIZE
            if progress is not None:
                progress(epochs, MAX_EPOCH + EPOCH_SIZE)

            score = development_score(self.predict(development))
            if score > best:
                best, best_model = score, copy.deepcopy(self.model)
            else:
                stopped = misses >= TENACITY
                misses += 1

        self.model = best_model
        return best

    def _epoch(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Train on all pairs once."""
        permutation = self.generator.permutation(len(inputs))
        order = torch.from_numpy(permutation).to(self.device)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            loss = torch.nn.functional.mse_loss(self.model(inputs[rows]), targets[rows])
            self.optimizer.zero_grad()
            torch.autograd.backward(loss)
            self.optimizer.step()

    def predict(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the expected grade of each row of features, `(n,)`."""
        inputs = torch.from_numpy(features).to(self.device)
        with torch.no_grad():
            probabilities = self.model(inputs).cpu().numpy()
        expected: NDArray[np.float64] = probabilities @ self.grades
        return expected
