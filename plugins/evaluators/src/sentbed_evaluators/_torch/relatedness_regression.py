"""SentEval's regression of relatedness: a softmax over five grades, trained on features of pairs."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

Features = NDArray[np.float32]

BATCH_SIZE = 64

EPOCH_SIZE = 50
"""Epochs between two evaluations on the development pairs."""

MAX_EPOCH = 1000

TENACITY = 3
"""Number of evaluations without improvement that are allowed in total. One more ends the training."""


def expected_grades(
    features: Features,
    targets: Features,
    development: Features,
    development_score: Callable[[NDArray[np.float64]], float],
    test: Features,
    seed: int,
    device: str,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float64]:
    """Train on features `(n, width)` and targets `(n, grades)`; return the expected grade of each row of `test`.

    The model is a linear layer and a softmax over the grades 1, 2, ... The loss is the mean squared error between
    the probabilities and their targets. The optimiser is Adam with learning rate 1e-3, batches of 64, no weight
    decay. Every 50 epochs, the expected grades of the development pairs are scored; the weights with the highest
    score are kept. Everything is as in SentEval's `RelatednessPytorch`: NumPy draws the order of the batches and
    PyTorch the initial weights, under the same seed.

    `progress` is called with the number of epochs so far and the largest possible number.
    """
    generator = np.random.RandomState(seed)
    with torch.random.fork_rng(devices=[]):
        # Not `torch.manual_seed`, which would also reseed a GPU's generator for dropout.
        torch.default_generator.manual_seed(seed)
        layer = torch.nn.Linear(features.shape[1], targets.shape[1])
    model = torch.nn.Sequential(layer, torch.nn.Softmax(dim=-1)).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    inputs = torch.from_numpy(features).to(device)
    outputs = torch.from_numpy(targets).to(device)

    best, best_model = -1.0, model
    epochs, misses = 0, 0
    while misses <= TENACITY and epochs <= MAX_EPOCH:
        for _ in range(EPOCH_SIZE):
            permutation = torch.from_numpy(generator.permutation(len(inputs)))
            for rows in torch.split(permutation.to(device), BATCH_SIZE):
                loss = torch.nn.functional.mse_loss(model(inputs[rows]), outputs[rows])
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
        epochs += EPOCH_SIZE
        if progress is not None:
            progress(epochs, MAX_EPOCH + EPOCH_SIZE)

        score = development_score(_grades(model, development, device))
        if score > best:
            best, best_model = score, copy.deepcopy(model)
        else:
            misses += 1
    return _grades(best_model, test, device)


def _grades(
    model: torch.nn.Module, features: Features, device: str
) -> NDArray[np.float64]:
    """Return the expected grade of each row of features, `(n,)`."""
    with torch.no_grad():
        probabilities = model(torch.from_numpy(features).to(device)).cpu().numpy()
    grades = np.arange(1, probabilities.shape[1] + 1)
    expected: NDArray[np.float64] = probabilities @ grades
    return expected
