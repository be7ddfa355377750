from __future__ import annotations

import pytest
import torch
from sentbed.protocols import StagePlace
from sentbed_losses.momentum import Momentum


def test_negatives_of_the_memory_alone_are_those_of_each_row_alone(
    draw, with_gradients, formula, agrees
):
    """MoCo's algorithm 1; the memory of seven fills, overflows and wraps."""
    loss = Momentum(size=7, temperature=0.3, in_batch=False, mask_duplicates=False)
    assert loss.takes == frozenset()
    module = loss.build(4)
    state, memory = module.initial_state(), []
    for step, rows in enumerate((3, 3, 3, 3, 2)):
        vectors = draw(rows=rows, negatives=False, seed=step, noise=2)
        ours, theirs = with_gradients(vectors)
        output = module(ours, state)
        losses = []
        for row in range(rows):
            alone = {name: value[[row]] for name, value in theirs.items()}
            losses.append(formula(loss, alone, memory)[0])
        expected = torch.stack(losses).mean()
        assert output.loss.item() == pytest.approx(expected.item(), rel=1e-6, abs=1e-6)
        assert output.metrics["negatives"].item() == len(memory) == min(7, 3 * step)
        output.loss.backward()
        expected.backward()
        for name, value in ours.items():
            if memory:
                agrees(value.grad, theirs[name].grad)
            else:
                # The positive alone is in the denominator: there is nothing to learn yet.
                assert value.grad.abs().max() < 1e-6
        memory = [*memory, *((positive, 0) for positive in vectors["positive"])][-7:]
        state = output.state


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"size": 0}, "`size = 0` is no memory"), ({"symmetric": True}, "`symmetric`")],
)
def test_negatives_of_the_memory_alone_need_a_memory_and_one_direction(fields, message):
    with pytest.raises(ValueError, match=message):
        Momentum(in_batch=False, **fields)
    assert Momentum(**fields).in_batch


def test_the_encoder_of_the_positives_may_be_trained():
    assert list(Momentum().misfits(StagePlace(64))) == []
