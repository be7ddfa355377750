from __future__ import annotations

from collections import Counter

import pytest
from sentbed_studies.random_sampler import Random
from sentbed_testing import parametrize_with_rules

CELLS = [
    {"lr": value, "pooler": pooler}
    for value in (0.1, 0.2, 0.5)
    for pooler in ("first", "mean")
]


@parametrize_with_rules([Random], must_run=True)
def test_it_keeps_every_rule(rule):
    rule()


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_the_cells_do_not_depend_on_the_batch_or_the_scores(batch):
    scores = {}
    while len(scores) < len(CELLS):
        chosen = Random().choose(CELLS, scores, min(batch, len(CELLS) - len(scores)), 3)
        scores |= {cell: -float(cell) for cell in chosen}
    assert [*scores] == Random().choose(CELLS, {}, len(CELLS), 3)


def test_each_cell_has_the_same_chance():
    counts = Counter(
        cell for seed in range(600) for cell in Random().choose(CELLS, {}, 2, seed)
    )
    # Binomial, 600 draws with probability 1/3: four standard deviations are 46.
    assert set(counts) == {*range(6)}
    assert all(abs(count - 200) < 46 for count in counts.values())
