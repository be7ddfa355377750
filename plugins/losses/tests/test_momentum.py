from __future__ import annotations

import math

import pytest
import torch
from sentbed_losses.momentum import Momentum
from sentbed_losses.queue import Queue


def test_eight_steps_with_a_moving_average_are_those_of_a_naive_loop(formula, agrees):
    """A linear tower in fp32 with our loss, and one in fp64 with the formula, side by side."""
    parameters = Momentum(size=7, momentum=0.9, temperature=0.3, mask_duplicates=False)
    module = parameters.build(3)
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(5, 3, generator=generator)
    theirs = ours.double()
    our_average, their_average = ours.clone(), theirs.clone()
    state, memory = module.initial_state(), []
    for rows in (3, 3, 3, 3, 3, 3, 3, 2):
        anchor, positive, negative = (
            torch.randn(rows, 5, generator=generator) for _ in range(3)
        )
        ours.requires_grad_()
        theirs.requires_grad_()
        output = module(
            {
                "anchor": anchor @ ours,
                "positive": positive @ our_average,
                "negative": negative @ ours,
            },
            state,
        )
        keys = positive.double() @ their_average
        expected, count = formula(
            parameters,
            {
                "anchor": anchor.double() @ theirs,
                "positive": keys,
                "negative": negative.double() @ theirs,
            },
            memory,
        )
        assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
        assert output.metrics["negatives"].item() == pytest.approx(count)
        output.loss.backward()
        expected.backward()
        agrees(ours.grad, theirs.grad)
        ours, theirs = (
            weights.detach() - 0.1 * weights.grad for weights in (ours, theirs)
        )
        our_average = 0.9 * our_average + 0.1 * ours
        their_average = 0.9 * their_average + 0.1 * theirs
        state, memory = output.state, (memory + [(key, 0) for key in keys])[-7:]


def test_eight_steps_with_negatives_of_the_memory_alone_are_those_of_a_naive_loop(
    agrees,
):
    """MoCo's algorithm 1 in fp64, one logit after the other; the queue fills, overflows and wraps."""
    loss = Momentum(
        size=7, momentum=0.9, temperature=0.3, in_batch=False, mask_duplicates=False
    )
    module = loss.build(3)
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(5, 3, generator=generator)
    theirs = ours.double()
    our_average, their_average = ours.clone(), theirs.clone()
    state = module.initial_state()
    queue = []

    def unit(vector):
        return vector / sum(x * x for x in vector) ** 0.5

    for step, rows in enumerate((3, 3, 3, 3, 3, 3, 3, 2)):
        query, key = (torch.randn(rows, 5, generator=generator) for _ in range(2))
        ours.requires_grad_()
        theirs.requires_grad_()
        output = module({"anchor": query @ ours, "positive": key @ our_average}, state)
        keys = [unit(row) for row in (key.double() @ their_average)]
        total = torch.zeros((), dtype=torch.float64)
        for row in range(rows):
            q = unit(query[row].double() @ theirs)
            logits = [
                sum(a * b for a, b in zip(q, k, strict=True)) / 0.3
                for k in [keys[row], *queue]
            ]
            total = total - logits[0] + torch.log(sum(logit.exp() for logit in logits))
        expected = total / rows
        assert output.loss.item() == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
        assert output.metrics["negatives"].item() == len(queue) == min(7, 3 * step)
        output.loss.backward()
        expected.backward()
        if queue:
            agrees(ours.grad, theirs.grad)
        else:
            # The positive alone is in the denominator: there is nothing to learn yet.
            assert output.loss.item() == 0
            assert ours.grad.abs().max() < 1e-6
        ours, theirs = (
            weights.detach() - 0.1 * weights.grad for weights in (ours, theirs)
        )
        our_average = 0.9 * our_average + 0.1 * ours
        their_average = 0.9 * their_average + 0.1 * theirs
        state, queue = output.state, [*queue, *keys][-7:]


def test_with_negatives_of_the_memory_alone_the_rest_of_the_batch_decides_nothing():
    """A row's loss in a batch of four is its loss alone, with the same memory."""
    loss = Momentum(size=8, in_batch=False, mask_duplicates=False)
    module = loss.build(3)
    generator = torch.Generator().manual_seed(0)
    filled, anchor, positive = (
        torch.randn(4, 3, generator=generator) for _ in range(3)
    )
    state = module({"anchor": filled, "positive": filled}, module.initial_state()).state
    together = module({"anchor": anchor, "positive": positive}, state).loss.item()
    rows = [{"anchor": anchor[[row]], "positive": positive[[row]]} for row in range(4)]
    alone = [module(row, state).loss.item() for row in rows]
    assert together == pytest.approx(sum(alone) / 4, rel=1e-6)
    in_batch = Momentum(size=8, mask_duplicates=False).build(3)
    assert not math.isclose(
        in_batch({"anchor": anchor, "positive": positive}, state).loss.item(), together
    )
    assert loss.traits.takes == frozenset()


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"size": 0}, "`size = 0` is no memory"), ({"symmetric": True}, "`symmetric`")],
)
def test_negatives_of_the_memory_alone_need_a_memory_and_one_direction(fields, said):
    (problem,) = Momentum(in_batch=False, **fields).check()
    assert said in problem
    assert (
        list(Momentum(in_batch=False).check()) == list(Momentum(**fields).check()) == []
    )


def test_positives_are_the_keys_and_the_average_is_slow():
    loss = Momentum()
    assert loss.traits.keys == {"positive"}
    assert loss.traits.keys <= loss.traits.needs
    assert (loss.momentum, loss.size) == (0.999, 65_536)


def test_it_is_a_queue_that_may_train_its_tower():
    assert list(Momentum().misfits(64, frozenset())) == []
    assert type(Momentum().build(4)) is type(Queue().build(4))


@pytest.mark.parametrize("momentum", [-0.1, 1.0, 1.5])
def test_an_average_that_never_moves_or_runs_away_is_refused(momentum):
    with pytest.raises(ValueError, match="momentum"):
        Momentum(momentum=momentum)
    assert Momentum(momentum=0.0).momentum == 0
