from __future__ import annotations

import pytest
import torch
from sentbed_losses.pair_classification import PairClassification


def explicit(vectors, weight, bias):
    """The equation in the docstring, pair by pair."""
    anchor, positive = vectors["anchor"], vectors["positive"]
    total = torch.zeros((), dtype=torch.float64)
    for i, u in enumerate(anchor):
        for j, v in enumerate(positive):
            scores = weight @ torch.cat([u, v]) + bias
            chosen = scores[1] if i == j else scores[0]
            total = total - torch.log(
                torch.exp(chosen) / (torch.exp(scores[0]) + torch.exp(scores[1]))
            )
    return total / len(anchor)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_loss_and_gradients_are_those_of_the_equation(
    draw, with_gradients, same_loss, rows
):
    torch.manual_seed(0)
    module = PairClassification().build(4)
    vectors = draw(rows=rows, negatives=False)
    ours, theirs = with_gradients(vectors)
    parameters = dict(module.named_parameters())
    weights = {}
    for name, value in parameters.items():
        weights[name] = value.detach().double().requires_grad_()

    expected = explicit(
        theirs, weights["classifier.weight"], weights["classifier.bias"]
    )
    same_loss(module(ours).loss, expected, ours | parameters, theirs | weights)


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_accuracy_is_the_mean_of_that_on_true_pairs_and_that_on_the_others(draw, rows):
    torch.manual_seed(3)
    module = PairClassification().build(4)
    vectors = {name: value.float() for name, value in draw(rows=rows).items()}
    right = {True: [], False: []}
    for i, u in enumerate(vectors["anchor"]):
        for j, v in enumerate(vectors["positive"]):
            scores = module.classifier(torch.cat([u, v]))
            right[i == j].append((scores[1] > scores[0]).item() == (i == j))
    shares = [sum(values) / len(values) for values in right.values() if values]
    metrics = module(vectors).metrics
    assert metrics["accuracy"].item() == pytest.approx(sum(shares) / len(shares))
    assert not metrics["accuracy"].requires_grad


def test_a_certain_classifier_that_is_wrong_has_a_finite_loss():
    module = PairClassification().build(1)
    with torch.no_grad():
        module.classifier.weight.copy_(torch.tensor([[0.0, 0.0], [1e4, 0.0]]))
        module.classifier.bias.zero_()
    anchor = torch.ones(2, 1, requires_grad=True)
    loss = module({"anchor": anchor, "positive": torch.ones(2, 1)}).loss
    loss.backward()
    assert loss.item() == pytest.approx(1e4)
    assert torch.isfinite(anchor.grad).all()
