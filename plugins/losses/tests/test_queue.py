from __future__ import annotations

import pytest
import torch
from sentbed.protocols import StagePlace
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.queue import Queue

# Batches of 4 rows, the last one smaller, against a memory of 10: empty, filling, full, wrapping.
BATCHES = [4, 4, 4, 4, 4, 4, 4, 3]

CASES = [
    Queue(size=10),
    Queue(size=10, mask_duplicates=False),
    Queue(size=10, temperature=0.5, similarity="dot"),
    Queue(size=10, temperature=0.2, symmetric=True),
    Queue(size=10, temperature=0.2, mask_duplicates=False, symmetric=True),
    Queue(size=8, temperature=0.3),
    Queue(
        size=8,
        temperature=0.3,
        hardness=3.0,
        hard_negatives="own",
    ),
    Queue(size=4, temperature=0.3),
    Queue(size=3, temperature=0.3),
    Queue(size=1000, temperature=0.3),
]


@pytest.mark.sweep(6)
@pytest.mark.parametrize("negatives", [False, True])
@pytest.mark.parametrize("parameters", CASES)
def test_every_step_is_the_formula_over_a_list_of_the_latest_positives(
    draw,
    with_gradients,
    formula,
    same_loss,
    parameters,
    negatives,
):
    module = parameters.build(4)
    state = module.initial_state()
    memory = []
    generator = torch.Generator().manual_seed(1)
    for step, rows in enumerate(BATCHES):
        vectors = draw(rows=rows, negatives=negatives, seed=step, noise=2)
        ids = {}
        if parameters.mask_duplicates:
            for name in vectors:
                drawn = torch.randint(0, 12, (rows,), generator=generator)
                ids[f"{name}.id"] = drawn
        ours, theirs = with_gradients(vectors)
        output = module({**ours, **ids}, state)
        expected, count = formula(parameters, {**theirs, **ids}, memory)
        same_loss(output.loss, expected, ours, theirs)
        assert output.metrics["negatives"].item() == pytest.approx(count)

        numbers = ids.get("positive.id", torch.zeros(rows)).tolist()
        memory += zip(vectors["positive"], numbers, strict=True)
        memory = memory[-parameters.size :]
        state = output.state
        assert state["filled"].item() == len(memory)


def test_the_oldest_vectors_are_overwritten_first_and_a_batch_wraps():
    module = Queue(size=5, similarity="dot", mask_duplicates=False).build(1)
    state = module.initial_state()

    def step(*values):
        nonlocal state
        column = torch.tensor(values)[:, None]
        state = module({"anchor": column, "positive": column}, state).state
        return state["memory"].flatten().tolist()

    assert step(1, 2, 3) == [1, 2, 3, 0, 0]
    assert (state["filled"].item(), state["next"].item()) == (3, 3)
    assert step(4, 5, 6) == [6, 2, 3, 4, 5]
    assert (state["filled"].item(), state["next"].item()) == (5, 1)
    assert step(7, 8) == [6, 7, 8, 4, 5]
    assert (state["filled"].item(), state["next"].item()) == (5, 3)
    # Seven rows in five places: the newest five.
    assert sorted(step(11, 12, 13, 14, 15, 16, 17)) == [13, 14, 15, 16, 17]
    assert state["filled"].item() == 5


def test_without_a_memory_it_is_info_nce_and_has_no_state(
    draw,
):
    module = Queue(size=0, symmetric=True, mask_duplicates=False).build(4)
    assert "state" not in Queue(size=0).needs
    output = module(draw())
    assert torch.equal(output.loss, InfoNCE(symmetric=True).build(4)(draw()).loss)
    assert output.state is None
    assert output.metrics["negatives"].item() == 9


def test_a_memory_of_a_tower_in_training_is_a_misfit():
    (problem,) = Queue().misfits(StagePlace(64, frozenset({"anchor"})))
    assert "stale" in problem
    assert "`momentum`" in problem
    assert list(Queue(size=0).misfits(StagePlace(64))) == []
