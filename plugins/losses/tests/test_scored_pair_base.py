"""Each loss over scored pairs against a loop over rows in fp64."""

from __future__ import annotations

import math

import pytest
import torch
from sentbed_losses.angle import Angle
from sentbed_losses.cosent import CoSENT
from sentbed_losses.pearson import Pearson

SCORES = torch.tensor([0.2, 0.9, 0.2, 0.5, 0.0, 1.0])


def cosine(u, v):
    return (u @ v) / (u @ u).sqrt() / (v @ v).sqrt()


def complex_similarity(u, v):
    """The sum of real and imaginary parts of u / v, component by component of complex vectors."""
    half = (len(u) + 1) // 2
    zero = torch.zeros(2 * half - len(u), dtype=u.dtype)
    x, y = torch.cat([u, zero]), torch.cat([v, zero])
    product = (
        torch.complex(x[:half], x[half:]) * torch.complex(y[:half], y[half:]).conj()
    )
    return (
        (product.real.sum() + product.imag.sum()).abs()
        / (u @ u).sqrt()
        / (v @ v).sqrt()
    )


def in_order(similarities, scores, temperature):
    total = torch.ones((), dtype=torch.float64)
    for similarity, low in zip(similarities, scores, strict=True):
        for other, high in zip(similarities, scores, strict=True):
            if low < high:
                total = total + torch.exp((similarity - other) / temperature)
    return torch.log(total)


def pearson(x, y):
    rows = len(x)
    mean_x, mean_y = sum(x) / rows, sum(y) / rows
    covariance = (
        sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / rows
    )
    variance_x = sum((a - mean_x) ** 2 for a in x) / (rows - 1)
    variance_y = sum((b - mean_y) ** 2 for b in y) / (rows - 1)
    return 1 - covariance / (variance_x.sqrt() * math.sqrt(variance_y))


def explicit(loss, vectors, scores):
    similarity = complex_similarity if isinstance(loss, Angle) else cosine
    pairs = zip(vectors["anchor"], vectors["positive"], strict=True)
    similarities = [similarity(u, v) for u, v in pairs]
    if isinstance(loss, Angle):
        return in_order(similarities, scores.double().tolist(), loss.temperature)
    return pearson(similarities, scores.double().tolist())


# The others are compared with sentence-transformers, whose AnglE takes no vectors of odd width.
@pytest.mark.parametrize(
    ("loss", "width"), [(Angle(temperature=0.5), 5), (Pearson(), 4), (Pearson(), 5)]
)
def test_loss_and_gradient_are_those_of_the_formula(
    draw, with_gradients, same_loss, loss, width
):
    vectors = draw(rows=6, width=width, noise=2)
    ours, theirs = with_gradients(vectors)
    actual = loss.build(width)({**ours, "score": SCORES}).loss
    expected = explicit(loss, theirs, SCORES)
    del ours["negative"]
    same_loss(actual, expected, ours, theirs)


def batch(cosines, scores):
    angles = torch.tensor(cosines).acos()
    vectors = torch.stack([angles.cos(), angles.sin()], dim=1)
    anchor = torch.tensor([[1.0, 0.0]]).expand(len(cosines), -1)
    return {
        "anchor": anchor,
        "positive": vectors.requires_grad_(),
        "score": torch.tensor(scores),
    }


def test_pearson_of_a_perfect_batch_is_one_over_its_rows():
    inputs = batch([0.0, 0.25, 0.5, 0.75], [1.0, 2.0, 3.0, 4.0])
    output = Pearson().build(2)(inputs)
    assert output.loss.item() == pytest.approx(1 / 4)
    assert output.metrics["correlation"].item() == pytest.approx(1)


@pytest.mark.parametrize(
    ("cosines", "scores"),
    [([0.5, 0.5], [0.0, 1.0]), ([0.1, 0.9], [0.3, 0.3]), ([0.5], [1.0])],
)
def test_pearson_of_constant_values_is_one_and_has_no_gradient(cosines, scores):
    inputs = batch(cosines, scores)
    loss = Pearson().build(2)(inputs).loss
    assert loss.item() == 1
    loss.backward()
    assert torch.equal(inputs["positive"].grad, torch.zeros(len(cosines), 2))


def test_pearson_and_cosent_do_not_see_the_scale_of_the_scores():
    inputs = batch([0.3, 0.1, 0.7, 0.2], [0.1, 0.4, 0.2, 0.9])
    scaled = {**inputs, "score": 4 * inputs["score"] + 1}
    for loss in (Pearson(), CoSENT(), Angle()):
        module = loss.build(2)
        assert module(scaled).loss.item() == pytest.approx(
            module(inputs).loss.item(), rel=1e-6
        )


def test_rows_of_one_score_are_not_compared():
    inputs = batch([0.3, 0.1, 0.7], [0.5, 0.5, 0.5])
    loss = CoSENT().build(2)(inputs).loss
    assert loss.item() == 0
    loss.backward()
    assert torch.equal(inputs["positive"].grad, torch.zeros(3, 2))
