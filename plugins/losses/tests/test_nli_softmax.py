from __future__ import annotations

import pytest
import torch
from sentbed_losses.nli_softmax import NLISoftmax


@pytest.fixture
def pairs():
    generator = torch.Generator().manual_seed(0)
    return {
        "premise": torch.randn(8, 4, generator=generator).double(),
        "hypothesis": torch.randn(8, 4, generator=generator).double(),
        "label": torch.tensor([0, 2, 1, 1, 0, 2, 2, 0]),
    }


def explicit(inputs, weight, bias, product):
    total = torch.zeros((), dtype=torch.float64)
    for u, v, label in zip(*inputs.values(), strict=True):
        features = [*u, *v, *(abs(a - b) for a, b in zip(u, v, strict=True))]
        if product:
            features += [a * b for a, b in zip(u, v, strict=True)]
        scores = [
            sum(w * x for w, x in zip(row, features, strict=True)) + b
            for row, b in zip(weight, bias, strict=True)
        ]
        total = total - torch.log(
            torch.exp(scores[label]) / sum(torch.exp(score) for score in scores)
        )
    return total / len(inputs["label"])


@pytest.mark.parametrize("product", [False, True])
def test_loss_and_gradients_are_those_of_a_naive_loop(pairs, same_loss, product):
    torch.manual_seed(0)
    module = NLISoftmax(product=product).build(4)
    names = ("premise", "hypothesis")
    ours = {name: pairs[name].float().requires_grad_() for name in names}
    theirs = {name: pairs[name].clone().requires_grad_() for name in names}
    parameters = dict(module.named_parameters())
    weights = {}
    for name, value in parameters.items():
        weights[name] = value.detach().double().requires_grad_()

    label = {"label": pairs["label"]}
    loss = module({**ours, **label}).loss
    expected = explicit(
        {**theirs, **label},
        weights["classifier.weight"],
        weights["classifier.bias"],
        product,
    )
    same_loss(loss, expected, ours | parameters, theirs | weights)


def test_accuracy_is_the_share_of_rows_whose_label_scores_highest(
    pairs,
):
    module = NLISoftmax().build(4)
    with torch.no_grad():
        module.classifier.weight.zero_()
        module.classifier.bias.copy_(torch.tensor([0.0, 1.0, 3.0]))
    assert module(pairs).metrics["accuracy"].item() == pytest.approx(3 / 8)


def test_equal_sentences_have_a_finite_gradient(pairs):
    premise = pairs["premise"].clone().requires_grad_()
    inputs = {
        "premise": premise,
        "hypothesis": pairs["premise"],
        "label": pairs["label"],
    }
    NLISoftmax().build(4)(inputs).loss.backward()
    assert torch.isfinite(premise.grad).all()


@pytest.mark.parametrize("classes", [(), ("one",), ("a", "b", "a")])
def test_classes_are_two_or_more_and_each_once(classes):
    with pytest.raises(ValueError, match="classes"):
        NLISoftmax(classes=classes)
