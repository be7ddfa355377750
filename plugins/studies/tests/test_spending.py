from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentbed_studies.spending import RESERVE, shares


def test_planned_looks_share_nine_tenths_in_proportion_to_the_squared_degrees():
    assert shares(((7, 8, 9), (2, 3))) == {
        2: pytest.approx(0.9 / 5),
        3: pytest.approx(0.9 * 4 / 5),
    }


def test_a_seed_that_is_added_leaves_the_earlier_looks_as_they_were():
    planned = ((7, 8, 9), (2, 3))
    longer = shares(((7, 8, 9, 5), (2, 3, 4)), [planned])
    assert {
        number_of_seeds: longer[number_of_seeds] for number_of_seeds in (2, 3)
    } == shares(planned)
    assert longer[4] == pytest.approx(RESERVE * 3 / (3 * 4))


def test_a_look_that_moves_to_the_last_seed_and_exchanged_seeds_are_further_looks():
    first = ((1, 2), (2,))
    moved = shares(((1, 2, 3), (3,)), [first])
    assert moved == {3: pytest.approx(RESERVE * 2 / (2 * 3))}
    exchanged = shares(((5, 6), (2,)), [first, ((1, 2, 3), (3,))])
    assert exchanged == {2: pytest.approx(RESERVE * 2 / (3 * 4))}


@st.composite
def histories(draw):
    plans = []
    for _ in range(draw(st.integers(1, 6))):
        seeds = draw(st.permutations(range(draw(st.integers(2, 6)))))
        first = draw(st.integers(2, len(seeds)))
        plans.append((tuple(seeds), tuple(range(first, len(seeds) + 1))))
    return plans


@given(histories())
def test_no_history_of_plans_spends_more_than_the_rate(plans):
    spent = {}
    for number, plan in enumerate(plans):
        for number_of_seeds, share in shares(plan, plans[:number]).items():
            first_share = spent.setdefault(plan[0][:number_of_seeds], share)
            assert first_share == share
    assert sum(spent.values()) <= 1 + 1e-9
