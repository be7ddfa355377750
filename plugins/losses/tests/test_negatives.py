"""How many negatives an anchor sees: as the losses say, and as their own metric counts them."""

from __future__ import annotations

import pytest
import torch
from sentbed_losses.info_nce import InfoNCE
from sentbed_losses.momentum import Momentum
from sentbed_losses.nli_softmax import NLISoftmax
from sentbed_losses.pair_classification import PairClassification
from sentbed_losses.queue import Queue

PAIR = frozenset({"anchor", "positive"})
TRIPLET = PAIR | {"negative"}


@pytest.mark.parametrize(
    ("loss", "columns", "expected"),
    [
        (InfoNCE(), PAIR, 7),
        (InfoNCE(), TRIPLET, 15),
        (InfoNCE(symmetric=True), PAIR, 7),
        (Queue(size=100), PAIR, 107),
        (Queue(size=100), TRIPLET, 115),
        (Queue(size=0), PAIR, 7),
        (Momentum(size=20), PAIR, 27),
        (Momentum(size=20, in_batch=False), TRIPLET, 20),
        (PairClassification(), PAIR, 7),
        (NLISoftmax(), frozenset({"premise", "hypothesis", "label"}), 0),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_batch_of_eight_has(loss, columns, expected):
    assert loss.negatives(8, columns) == expected


@pytest.mark.parametrize("columns", [PAIR, TRIPLET])
def test_a_full_memory_is_counted_as_the_loss_counts_it(
    columns,
):
    loss = Queue(size=8, mask_duplicates=False)
    module, state = loss.build(4), None
    inputs = {name: torch.randn(4, 4) for name in columns}
    for _ in range(3):
        output = module(inputs, state or module.initial_state())
        state = output.state
    assert output.metrics["negatives"].item() == loss.negatives(4, columns)
