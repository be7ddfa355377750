"""Random batches, and the contrastive losses as their formula says, one candidate after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from sentbed_losses.columns import HARD_NEGATIVES


@pytest.fixture
def draw():
    """Float64 vectors, positives near their anchors.

    With more `noise` positives are harder to find: gradients in fp32 are exact relative to their size.
    """

    def vectors(
        rows=5,
        width=4,
        negatives=True,
        seed=0,
        noise=0.5,
    ):
        generator = torch.Generator().manual_seed(seed)

        def normal():
            # Rounded to fp32 so that the cast inside the loss takes nothing away.
            return torch.randn(rows, width, generator=generator).double()

        anchor = normal()
        pairs = {
            "anchor": anchor,
            "positive": (anchor + noise * normal()).float().double(),
        }
        return pairs | ({"negative": normal()} if negatives else {})

    return vectors


@pytest.fixture
def with_gradients():
    """Return vectors in fp32 for a loss, and in fp64 for its formula; both have gradients."""

    def copies(vectors):
        ours = {}
        theirs = {}
        for name, value in vectors.items():
            ours[name] = value.float().requires_grad_()
            theirs[name] = value.clone().requires_grad_()

        return ours, theirs

    return copies


@pytest.fixture
def formula():
    """The function `explicit`."""
    return explicit


Memory = Sequence[tuple[torch.Tensor, int]]


def explicit(
    parameters,
    batch,
    memory=(),
    temperature=None,
):
    """Return the loss in fp64, and the mean number of negatives in a denominator.

    `batch` holds fp64 vectors and, where texts are compared, `COLUMN.id`; `memory` vectors and their ids.
    """
    t = parameters.temperature if temperature is None else temperature

    def similarity(u, v):
        dot = sum(a * b for a, b in zip(u, v, strict=True))
        if parameters.similarity == "dot":
            return dot
        return dot / (sum(a * a for a in u).sqrt() * sum(b * b for b in v).sqrt())

    def column(name):
        if name not in batch:
            return []
        numbers = batch.get(f"{name}.id", torch.zeros(len(batch[name])))
        return list(zip(batch[name], numbers.tolist(), strict=True))

    def direction(query, target, negatives, memory):
        total, count = torch.zeros((), dtype=torch.float64), 0
        rows = list(zip(column(query), column(target), strict=True))
        for i, ((q, q_id), (match, match_id)) in enumerate(rows):

            def leaves(candidate, ids=(q_id, match_id)):
                return parameters.mask_duplicates and candidate[1] in ids

            numerator = denominator = torch.exp(similarity(q, match) / t)
            for j, candidate in enumerate(column(target)):
                if j != i and not leaves(candidate):
                    term = torch.exp(similarity(q, candidate[0]) / t)
                    denominator = denominator + term
                    count += 1
            for name in negatives:
                for j, candidate in enumerate(column(name)):
                    value = similarity(q, candidate[0])
                    term = torch.exp(value / t)
                    if j == i:
                        hardness = torch.exp(parameters.hardness * value.detach())
                        term = term * hardness
                    elif parameters.hard_negatives == "own" or leaves(candidate):
                        continue
                    denominator = denominator + term
                    count += 1
            for candidate in memory:
                if not leaves(candidate):
                    term = torch.exp(similarity(q, candidate[0]) / t)
                    denominator = denominator + term
                    count += 1
            total = total - torch.log(numerator / denominator)
        return total / len(rows), count / len(rows)

    negatives = [name for name in HARD_NEGATIVES if parameters.hard_negatives != "none"]
    loss, count = direction("anchor", "positive", negatives, memory)
    if parameters.symmetric:
        loss = (loss + direction("positive", "anchor", (), ())[0]) / 2
    assert math.isfinite(loss.item())
    return loss, count


@pytest.fixture
def agrees():
    """Assert that gradients differ by at most 1e-5 of their norm."""
    return same_gradient


@pytest.fixture
def same_loss():
    """Assert that a loss is that of the formula, with the gradient of each of its inputs and weights."""

    def check(actual, expected, ours, theirs):
        assert actual.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-7)
        actual.backward()
        expected.backward()
        for name, value in ours.items():
            same_gradient(value.grad, theirs[name].grad)

    return check


def same_gradient(ours, theirs):
    """Assert that gradients differ by at most 1e-5 of their norm."""
    assert theirs.norm() > 0
    assert (ours.double() - theirs).norm() <= 1e-5 * theirs.norm()
