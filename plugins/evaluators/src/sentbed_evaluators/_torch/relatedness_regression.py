"""SentEval's regression of relatedness: a softmax over five grades, trained on features of pairs."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

Stop = Callable[[NDArray[np.float64]], float]
"""Expected grades of the development pairs `(n,)` -> what the best weights maximise."""

BATCH_SIZE = 64
EPOCH_SIZE = 50
"""Epochs between two evaluations on the development pairs."""
MAX_EPOCH = 1000
TENACITY = 3
"""Evaluations without improvement that are allowed, in total; the next one ends the training."""


class RelatednessRegression:
    """One linear layer and a softmax, whose output is the expected grade, 1 to the number of grades.

    Trained by Adam at 1e-3 on the mean squared error between the probabilities and their targets, in batches
    of 64, without weight decay. All of it is SentEval's `RelatednessPytorch`: the order of the batches is
    NumPy's under the seed, the initial weights are PyTorch's.
    """

    def __init__(self, width: int, grades: int, seed: int, device: str) -> None:
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
        stop: Stop,
        advance: Callable[[int, int], None],
    ) -> float:
        """Train on features `(n, width)` and targets `(n, grades)`, and keep the best weights.

        The best weights are those of the highest `stop` on the features `development`, which is looked at
        every 50 epochs and returned. `advance` is called with the epochs trained and their largest number.
        """
        inputs = torch.from_numpy(features).to(self.device)
        outputs = torch.from_numpy(targets).to(self.device)
        best, best_model = -1.0, self.model
        epochs, misses, stopped = 0, 0, False
        while not stopped and epochs <= MAX_EPOCH:
            for _ in range(EPOCH_SIZE):
                self._epoch(inputs, outputs)
            epochs += EPOCH_SIZE
            advance(epochs, MAX_EPOCH + EPOCH_SIZE)
            reached = stop(self.predict(development))
            if reached > best:
                best, best_model = reached, copy.deepcopy(self.model)
            else:
                stopped = misses >= TENACITY
                misses += 1
        self.model = best_model
        return best

    def _epoch(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        """Train on all pairs once."""
        order = torch.from_numpy(self.generator.permutation(len(inputs))).to(
            self.device
        )
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
