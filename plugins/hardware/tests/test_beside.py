"""Several encoders of one backbone: one pass, and the bits that each has alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sentbed import RunError
from sentbed.protocols import BuildContext, Head

TEXTS = (
    "a small house by the sea",
    "rain",
    "two birds sing in a tree today",
    "they play chess",
)


def several(toys, engine, width=8):
    """Encoders over one built backbone: poolers and heads with weights and without."""
    backbone = toys.backbone(width=width).build(BuildContext(tuple))
    parts = [
        (toys.mean(), Head()),
        (toys.mean(), Head(normalize=True)),
        (toys.first_dense(out=5), Head()),
        (toys.mean(), Head(projection=3)),
        (toys.first_dense(out=7), Head(projection=6, bias=True, normalize=True)),
        (toys.norm(), Head()),
    ]
    return [engine.assemble(backbone, pooler, head) for pooler, head in parts]


def beside(encoders):
    together = encoders[0].beside(encoders[1:])
    assert together is not None
    return together


def one_after_another(encoders, batch):
    """Return the vectors of each encoder, side by side."""
    return np.concatenate([encoder.encode(batch) for encoder in encoders], 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_each_part_has_the_bits_of_its_own_encoder(dtype, toys, engine_of):
    encoders = several(toys, engine_of(dtype), width=48)
    batch = toys.batch(*TEXTS)
    expected = one_after_another(encoders, batch)
    for encoder in encoders:
        encoder.weights_changed()
    together = beside(encoders)
    vectors = together.encode(batch)
    assert vectors.dtype == np.float32
    assert together.width == vectors.shape[1] == 48 + 48 + 5 + 3 + 6 + 48
    assert vectors.tobytes() == expected.tobytes()


def test_the_backbone_is_passed_through_once(toys, engine):
    encoders = several(toys, engine)
    together = beside(encoders)
    passes = []
    together.copied_backbone().register_forward_hook(lambda *_: passes.append(1))
    together.encode(toys.batch(*TEXTS))
    assert len(passes) == 1
    # The copy of the weights is the first one's, also for each alone.
    for encoder in encoders:
        assert encoder.copied_backbone() is together.copied_backbone()


def test_poolers_compute_as_for_encoding(toys, engine):
    encoders = several(toys, engine)
    batch = toys.batch(*TEXTS)
    expected = encoders[-1].encode(batch)
    # Batch normalisation takes the batch's statistics in training.
    encoders[-1].module.train()
    assert beside(encoders).encode(batch)[:, -8:].tobytes() == expected.tobytes()


def test_weights_that_changed_are_used(toys, engine):
    encoders = several(toys, engine)
    together = beside(encoders)
    batch = toys.batch(*TEXTS)
    before = together.encode(batch)
    with torch.no_grad():
        encoders[0].module.backbone.dense.weight.add_(1)
    encoders[0].weights_changed()
    after = together.encode(batch)
    assert np.abs(after - before).max() > 0.1
    assert after.tobytes() == one_after_another(encoders, batch).tobytes()


def test_encoders_of_another_backbone_or_engine_are_refused(toys, engine, engine_of):
    first, *rest = several(toys, engine)
    other = several(toys, engine)[1]
    assert first.beside([*rest, other]) is None
    elsewhere = engine_of().assemble(first.backbone, toys.mean(), Head())
    assert first.beside([elsewhere]) is None
    assert first.beside([object()]) is None
    assert first.beside(rest) is not None


def test_a_batch_that_does_not_fit_is_not_halved_for_several(toys, engine, room_for):
    encoders = several(toys, engine)
    room_for(10)
    budget = engine.token_budget
    with pytest.raises(
        RunError, match=r"a batch of 32 tokens does not fit .* for 6 encoders at once"
    ):
        beside(encoders).encode(toys.batch(*TEXTS))
    assert (engine.token_budget, engine.batch_size.most_tokens) == (budget, None)


def test_a_batch_that_was_halved_before_is_cut_alike(toys, engine, room_for):
    encoders = several(toys, engine)
    tried = room_for(14)
    batch = toys.batch(*TEXTS)
    expected = one_after_another(encoders, batch)
    tried.clear()
    assert beside(encoders).encode(batch).tobytes() == expected.tobytes()
    assert max(tried) <= 14
