from __future__ import annotations

import math

import attrs
import pytest
import torch
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.matryoshka import Matryoshka
from sentbed_losses.mntp import MNTP
from sentbed_losses.weighted_sum import WeightedSum

TOKENS, MASK = 1000, 7


@attrs.frozen
class Head:
    """What the masking asks of a head."""

    tokens: int = TOKENS
    mask_id: int = MASK


def corrupted(count=200_000, **fields):
    """Ids of a long text, those that are special, those that are read, and which are chosen."""
    torch.manual_seed(5)
    ids = torch.randint(10, TOKENS, (count,))
    special = torch.arange(count) % 50 == 0
    read, chosen = MNTP(**fields).build(4).corrupt(ids, special, Head())
    return ids, special, read, chosen


@pytest.mark.parametrize(
    ("fields", "masked", "random"),
    [
        ({}, 0.8, 0.1),
        ({"probability": 0.8, "masked": 1.0, "random": 0.0}, 1.0, 0.0),
        ({"probability": 0.5, "masked": 0.0, "random": 1.0}, 0.0, 1.0),
    ],
    ids=["llama", "mistral", "random"],
)
def test_tokens_are_chosen_and_replaced_in_the_shares_that_are_asked_for(
    fields, masked, random
):
    ids, special, read, chosen = corrupted(**fields)
    assert not (chosen & special).any()
    assert torch.equal(read[~chosen], ids[~chosen])
    share = chosen[~special].float().mean().item()
    assert share == pytest.approx(fields.get("probability", 0.2), abs=0.005)
    became, were = read[chosen], ids[chosen]
    assert (became == MASK).float().mean().item() == pytest.approx(masked, abs=0.01)
    # One random token in a thousand is the one that was there.
    other = ((became != MASK) & (became != were)).float().mean().item()
    assert other == pytest.approx(random, abs=0.01)
    drawn = became[(became != MASK) & (became != were)]
    if random:
        assert drawn.float().mean().item() == pytest.approx(TOKENS / 2, rel=0.02)
        assert 0 <= drawn.min() < 50
        assert TOKENS - 50 < drawn.max() < TOKENS


def test_the_same_seed_corrupts_the_same_tokens_and_another_draw_others():
    first, again = corrupted(500), corrupted(500)
    assert all(
        torch.equal(tensor, other) for tensor, other in zip(first, again, strict=True)
    )
    _, later = MNTP().build(4).corrupt(first[0], first[1], Head())
    assert not torch.equal(later, first[3])


def test_the_loss_is_the_mean_surprise_at_the_chosen_tokens():
    logits = torch.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], requires_grad=True)
    output = MNTP().build(4)({"anchor": logits, "anchor.id": torch.tensor([1, 0])})
    first = -math.log(math.e / (1 + math.e + math.e**2))
    second = -math.log(math.e**3 / (math.e**3 + 2))
    assert output.loss.item() == pytest.approx((first + second) / 2, abs=1e-6)
    assert output.metrics["accuracy"].item() == 0.5


def test_a_batch_without_a_chosen_token_has_the_loss_0_and_a_gradient_of_0():
    logits = torch.zeros(0, 9, requires_grad=True)
    output = MNTP().build(4)(
        {"anchor": logits, "anchor.id": torch.zeros(0, dtype=torch.long)}
    )
    output.loss.backward()
    assert (output.loss.item(), output.metrics["accuracy"].item()) == (0, 0)


def test_shares_that_make_more_than_1_are_refused():
    with pytest.raises(ValueError, match="make more than 1; lower one of them"):
        MNTP(masked=0.8, random=0.3)
    for field, wrong in (("probability", 0.0), ("masked", 1.1), ("random", -0.1)):
        with pytest.raises(ValueError, match=field):
            MNTP(**{field: wrong})


@pytest.mark.parametrize(
    "outer", [Matryoshka(MNTP(), dimensions=(2,)), WeightedSum((MNTP(), InfoNCE()))]
)
def test_it_is_no_part_of_another_loss(outer):
    assert any("`mntp` predicts tokens" in problem for problem in outer.check())


def test_a_frozen_encoder_has_nothing_to_train():
    assert not list(MNTP().misfits(8, frozenset()))
    (problem,) = MNTP().misfits(8, frozenset({"anchor"}))
    assert "take it out of `freeze`" in problem
