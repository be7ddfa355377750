from __future__ import annotations

import importlib.util
import itertools
from typing import Any

import pytest
from sentbed_studies.random_sampler import Random
from sentbed_studies.tpe_sampler import TPE
from sentbed_testing import parametrize_with_rules

pytestmark = pytest.mark.slow

POOLERS, POINTS = ("first", "last", "mean", "mask", "max"), ("end", "best", "start")
RATES, TEMPERATURES = (1e-5, 2e-5, 5e-5, 1e-4, 1e-3), (0.01, 0.02, 0.05, 0.1)

CELLS: list[dict[str, Any]] = [
    dict(zip(("pooler", "point", "lr", "temperature"), labels, strict=True))
    for labels in itertools.product(POOLERS, POINTS, RATES, TEMPERATURES)
]


def score(cell):
    """A separable function, whose largest value, 0, is that of one cell."""
    return -float(
        abs(POOLERS.index(cell["pooler"]) - 2)
        + 2 * abs(POINTS.index(cell["point"]) - 1)
        + abs(RATES.index(cell["lr"]) - 3)
        + abs(TEMPERATURES.index(cell["temperature"]) - 1)
    )


def search(
    sampler,
    seed,
    budget,
    cells=CELLS,
    of=score,
    batch=4,
):
    scores = {}
    while len(scores) < budget:
        chosen = sampler.choose(cells, scores, min(batch, budget - len(scores)), seed)
        assert not {*chosen} & {*scores}
        scores |= {cell: of(cells[cell]) for cell in chosen}
    return scores


@parametrize_with_rules([TPE], must_run=True)
def test_it_keeps_every_rule(rule):
    rule()


@pytest.mark.slow
def test_tpe_finds_the_best_cell_more_often_than_chance():
    # 30 of 300 cells: chance finds the best one in a tenth of all searches.
    best = [
        max(score(CELLS[cell]) for cell in search(TPE(), seed, 30))
        for seed in range(10)
    ]
    by_chance = [
        max(score(CELLS[cell]) for cell in search(Random(), seed, 30))
        for seed in range(10)
    ]
    assert best.count(0.0) >= 6 > 3 >= by_chance.count(0.0)


@pytest.mark.parametrize("sampler", [TPE(startup=4), TPE(startup=4, multivariate=True)])
def test_equal_scores_lead_to_equal_cells(sampler):
    scores = search(sampler, 1, 16)
    assert [*search(sampler, 1, 16)] == [*scores]
    assert [*search(sampler, 2, 16)] != [*scores]
    # Only what was scored counts, not what this process has chosen before.
    begun = dict([*scores.items()][:8])
    assert list(sampler.choose(CELLS, begun, 4, 1)) == [*scores][8:12]


def test_every_cell_is_chosen_once_and_none_that_is_no_cell():
    # As `exclude` or `zip` leave them: not all combinations of labels.
    cells = [
        cell for cell in CELLS if (cell["lr"] > 5e-5) == (cell["pooler"] == "mean")
    ][:24]
    assert sorted(search(TPE(startup=3), 0, len(cells), cells)) == list(
        range(len(cells))
    )


def test_cells_without_a_score_and_axes_with_one_label_are_no_trouble():
    cells = [{**cell, "seed": "same"} for cell in CELLS]
    scores = search(
        TPE(startup=3),
        0,
        16,
        cells,
        lambda c: None if c["pooler"] == "max" else score(c),
    )
    assert len(scores) == 16
    assert None in scores.values()


def test_a_missing_package_is_said_before_anything_runs(
    monkeypatch,
):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "optuna" else find(name),
    )
    assert [*TPE().check()] == [
        "the sampler `tpe` needs the package `optuna`, which is not installed; "
        "run `pip install 'sentbed-studies[optuna]'`"
    ]
