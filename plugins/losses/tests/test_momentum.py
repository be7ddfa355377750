from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sentbed_losses.momentum import Momentum
from sentbed_losses.queue import Queue

Formula = Callable[..., tuple[torch.Tensor, float]]


def test_eight_steps_with_a_moving_average_are_those_of_a_naive_loop(
    formula: Formula, agrees: Callable[..., None]
) -> None:
    """A linear tower in fp32 with our loss, and one in fp64 with the formula, side by side."""
    parameters = Momentum(size=7, momentum=0.9, temperature=0.3)
    module = parameters.build(3)
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(5, 3, generator=generator)
    theirs = ours.double()
    our_average, their_average = ours.clone(), theirs.clone()
    state, memory = module.initial_state(), []
    for rows in (3, 3, 3, 3, 3, 3, 3, 2):
        anchor, positive, negative = (torch.randn(rows, 5, generator=generator) for _ in range(3))
        ours.requires_grad_()
        theirs.requires_grad_()
        output = module(
            {"anchor": anchor @ ours, "positive": positive @ our_average, "negative": negative @ ours}, state
        )
        keys = positive.double() @ their_average
        expected, count = formula(
            parameters,
            {"anchor": anchor.double() @ theirs, "positive": keys, "negative": negative.double() @ theirs},
            memory,
        )
        assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
        assert output.metrics["negatives"].item() == pytest.approx(count)
        output.loss.backward()
        expected.backward()
        agrees(ours.grad, theirs.grad)
        ours, theirs = (weights.detach() - 0.1 * weights.grad for weights in (ours, theirs))
        our_average = 0.9 * our_average + 0.1 * ours
        their_average = 0.9 * their_average + 0.1 * theirs
        state, memory = output.state, (memory + [(key, 0) for key in keys])[-7:]


def test_positives_are_the_keys_and_the_average_is_slow() -> None:
    loss = Momentum()
    assert loss.traits.keys == {"positive"}
    assert loss.traits.keys <= loss.traits.needs
    assert (loss.momentum, loss.size) == (0.999, 65_536)


def test_it_is_a_queue_that_may_train_its_tower() -> None:
    assert list(Momentum().misfits(64, frozenset())) == []
    (problem,) = Momentum(size=63).misfits(64, frozenset())
    assert "`momentum`" in problem
    assert "63 places" in problem
    assert type(Momentum().build(4)) is type(Queue().build(4))


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5])
def test_an_average_that_never_moves_or_runs_away_is_refused(momentum: float) -> None:
    with pytest.raises(ValueError, match="momentum"):
        Momentum(momentum=momentum)
    assert Momentum(momentum=0.0).momentum == 0
