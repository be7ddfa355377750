from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from sentbed_common import Neighbours
from sentbed_corpus import Rules

FOUND = Neighbours(
    np.array([[4, 1, 7, 0, 3], [2, 5, 6, 1, -1], [3, 0, -1, -1, -1]]),
    np.array(
        [
            [0.9, 0.8, 0.5, 0.5, -0.3],
            [0.7, 0.2, 0.0, -0.6, -np.inf],
            [0.1, 0.0, *[-np.inf] * 3],
        ]
    ),
)
POSITIVES = np.array([0.85, -0.5, 1.0])


def naive(rules):
    """Judge one candidate after another."""
    places, left_out = [], Counter[str]()
    for row, positive in enumerate(POSITIVES.tolist()):
        kept = []
        for rank, (place, score) in enumerate(
            zip(FOUND.places[row], FOUND.similarities[row], strict=True)
        ):
            checks = {
                "range_min": rank < rules.range_min,
                "absolute_margin": rules.absolute_margin is not None
                and positive - score < rules.absolute_margin,
                "relative_margin": rules.relative_margin is not None
                and score > positive - abs(positive) * rules.relative_margin,
                "max_score": rules.max_score is not None and score > rules.max_score,
                "min_score": rules.min_score is not None and score < rules.min_score,
            }
            broken = [name for name, is_broken in checks.items() if is_broken]
            if place == -1:
                continue
            if broken:
                left_out[broken[0]] += 1
            else:
                kept.append(int(place))
        places.append(
            kept[: rules.negatives]
            if len(kept) >= rules.negatives
            else [-1] * rules.negatives
        )
    return places, left_out


@pytest.mark.parametrize("negatives", [1, 2, 4])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"range_min": 1},
        {"absolute_margin": 0.25},
        {"absolute_margin": 0.0},
        {"relative_margin": 0.1},
        {"relative_margin": 0.5},
        {"max_score": 0.5},
        {"min_score": 0.05},
        {
            "range_min": 1,
            "absolute_margin": 0.2,
            "relative_margin": 0.3,
            "max_score": 0.45,
            "min_score": -0.5,
        },
    ],
)
def test_every_rule_keeps_what_a_loop_over_candidates_keeps(rules, negatives):
    chosen = Rules(negatives=negatives, **rules)
    places, left_out = naive(chosen)
    selected = chosen.select(FOUND, POSITIVES)

    assert selected.places.tolist() == places
    assert +selected.left_out == left_out


def test_a_margin_of_a_negative_similarity_is_below_it():
    """A tenth of |-0.5| less is -0.55; a factor of 0.9 would be -0.45."""
    assert Rules(relative_margin=0.1).select(FOUND, POSITIVES).places[1].tolist() == [1]


def test_more_negatives_than_candidates_leave_every_anchor_without():
    assert (Rules(negatives=6).select(FOUND, POSITIVES).places == -1).all()


def test_a_random_choice_is_of_what_the_rules_leave_in_the_order_of_ranks_and_of_every_candidate():
    rules = Rules(negatives=2, max_score=0.85, sampling="random")
    times = Counter[tuple[int, ...]]()
    for seed in range(300):
        rules_of_seed = attrs.evolve(rules, seed=seed)
        selected = rules_of_seed.select(FOUND, POSITIVES)
        times[tuple(selected.places[0])] += 1
        assert selected.places[2].tolist() == [3, 0]

    # The six pairs of four candidates, nearer first: 50 each, give or take.
    assert set(times) == {
        (1, 7),
        (1, 0),
        (1, 3),
        (7, 0),
        (7, 3),
        (0, 3),
    }
    assert min(times.values()) > 25
    assert max(times.values()) < 80


def test_a_random_choice_depends_on_the_seed_and_not_on_how_anchors_are_grouped():
    generator = np.random.default_rng(0)
    scores = -np.sort(-generator.normal(size=(40, 50)), axis=1)
    places = np.tile(np.arange(50), (40, 1))
    positives = np.ones(40)

    def chosen(first, last, seed):
        rules = Rules(negatives=3, sampling="random", seed=seed)
        block = Neighbours(places[first:last], scores[first:last])
        return rules.select(block, positives[first:last], first).places

    whole = chosen(0, 40, seed=5)
    parts = [chosen(0, 7, seed=5), chosen(7, 8, seed=5), chosen(8, 40, seed=5)]

    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert chosen(0, 40, seed=6).tolist() != whole.tolist()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"negatives": 3, "range_min": 8, "range_max": 10}, "no room for 3 negatives"),
        (
            {"min_score": 0.5, "max_score": 0.25},
            "`min_score` 0.5 is above `max_score` 0.25",
        ),
    ],
)
def test_rules_that_cannot_be_met_are_named(rules, message):
    (problem,) = Rules(**rules).problems()
    assert message in problem
    assert not list(Rules().problems())
