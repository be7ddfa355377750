from __future__ import annotations

import math

import pytest
import torch
from sentbed_losses.info_nce import InfoNCE


def test_the_loss_of_two_orthogonal_pairs():
    vectors = {"anchor": torch.eye(2), "positive": 3 * torch.eye(2)}
    loss = InfoNCE(temperature=0.5).build(2)(vectors).loss.item()
    assert loss == pytest.approx(math.log(1 + math.exp(-2)), abs=1e-6)


@pytest.mark.parametrize(
    "parameters", [InfoNCE(), InfoNCE(similarity="dot"), InfoNCE(symmetric=True)]
)
def test_accuracy_is_the_share_of_anchors_nearest_to_their_positive(draw, parameters):
    vectors = draw(rows=20, width=3)
    candidates = torch.cat([vectors["positive"], vectors["negative"]])
    if parameters.similarity != "dot":
        candidates = candidates / candidates.norm(dim=1, keepdim=True)
    right = 0
    for place, query in enumerate(vectors["anchor"]):
        right += int((candidates @ query).argmax()) == place
    assert 0 < right < 20
    output = parameters.build(3)(vectors)
    assert dict(output.metrics).keys() == {"accuracy"}
    assert output.metrics["accuracy"].item() == pytest.approx(right / 20)


def test_temperature_a_thousandth_stays_exact_where_exponentials_overflow():
    anchor = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]], requires_grad=True)
    positive = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], requires_grad=True)
    loss = (
        InfoNCE(temperature=0.001)
        .build(2)({"anchor": anchor, "positive": positive})
        .loss
    )
    # Row 0 ties with the positive of row 2: log 2. Row 1 is certain: 0. Row 2 prefers row 1 by 1000.
    assert loss.item() == pytest.approx((math.log(2) + 0 + 1000) / 3, rel=1e-6)
    loss.backward()
    assert torch.isfinite(anchor.grad).all()
    assert torch.isfinite(positive.grad).all()


def test_a_zero_vector_gives_a_finite_gradient():
    anchor = torch.zeros(2, 3, requires_grad=True)
    loss = InfoNCE().build(3)({"anchor": anchor, "positive": torch.eye(3)[:2]}).loss
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert torch.isfinite(anchor.grad).all()


def test_large_dot_products_stay_finite():
    vectors = {
        "anchor": torch.tensor([[1e4, 0.0], [0.0, 1e4]], requires_grad=True),
        "positive": torch.tensor([[0.0, 1e4], [1e4, 0.0]]),
    }
    loss = InfoNCE(temperature=1.0, similarity="dot").build(2)(vectors).loss
    loss.backward()
    assert loss.item() == pytest.approx(1e8)
    assert torch.isfinite(vectors["anchor"].grad).all()
