from __future__ import annotations

import numpy as np
import pytest
from sentbed_tpu._jax.shape_buckets import Buckets

BUCKETS = Buckets((4, 8, 16), 64)


@pytest.mark.parametrize(
    ("tokens", "longest", "padded"),
    [
        (1, 100, 4),
        (4, 100, 4),
        (5, 100, 8),
        (16, 100, 16),
        (17, 100, 32),
        (70, 100, 100),
        (9, 12, 12),
    ],
)
def test_a_text_is_padded_to_the_next_length_and_never_beyond_the_positions(
    tokens, longest, padded
):
    assert BUCKETS.length(tokens, longest) == padded


def test_every_text_is_in_one_batch_of_its_length_or_a_longer_one():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 25, 203)
    seen = []
    shapes = set()
    for chosen in BUCKETS.plan(lengths, 24):
        length = BUCKETS.length(lengths[chosen].max(), 24)
        rows = BUCKETS.rows(len(chosen))
        assert 0 < len(chosen) <= rows <= BUCKETS.largest(length)
        shapes.add((rows, length))
        seen += chosen.tolist()
    assert sorted(seen) == list(range(203))
    # 4 tokens: 8 and 16 rows; 8, 16 and 24 tokens: 8 rows.
    assert len(shapes) <= 5


def test_free_rows_are_filled_with_shorter_texts():
    (batch,) = BUCKETS.plan(np.array([7, 3, 3, 3]), 99)
    assert batch.tolist() == [0, 1, 2, 3]


def test_texts_that_are_in_a_batch_already_ask_for_no_rows_in_the_next_one():
    """Of 17 long texts, 16 are in the first batch, and 8 rows suffice for the last one."""
    buckets = Buckets((4, 16), 256)
    lengths = np.full(77, 4)
    lengths[:17] = 16

    plan = buckets.plan(lengths, 99)
    first = next(plan)
    second = next(plan)

    assert len(first) == 16
    assert len(second) == 8
