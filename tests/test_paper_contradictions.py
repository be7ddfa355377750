"""Where papers print different numbers for the same, at most one of them counts as what a cell is to meet."""

from __future__ import annotations

from itertools import combinations

import pytest
from paper_contradictions import claims
from paper_studies import study


@pytest.fixture(scope="module")
def groups():
    """Return the numbers that are of one encoder, training, protocol and task, where there are several."""
    claims_by_setting = {}
    for decided_by, claim in claims():
        claims_by_setting.setdefault(decided_by, []).append(claim)
    several = [group for group in claims_by_setting.values() if len(group) > 1]
    assert len(several) > 500
    return several


def cannot_both_be_met(claim, other):
    if claim.tolerance is None or other.tolerance is None:
        return False
    return abs(claim.value - other.value) > claim.tolerance + other.tolerance


def test_no_two_numbers_that_count_exclude_each_other(
    groups,
):
    pairs = [pair for group in groups for pair in combinations(group, 2)]
    assert not [pair for pair in pairs if cannot_both_be_met(*pair)]


def test_each_number_that_does_not_count_differs_from_one_that_does(
    groups,
):
    differing = set()
    for group in groups:
        for claim in group:
            if (
                claim.tolerance is not None
                or not study(claim.study).table.expected[claim.table].contradicted
            ):
                continue
            if any(
                other.tolerance is not None and other.value != claim.value
                for other in group
            ):
                differing.add((claim.study, claim.cell))
    assert differing == {
        ("sentence-t5/table-2", "none, base, bert, first"),
        ("sentence-t5/table-2", "none, base, bert, mean"),
        ("sentence-t5/table-3", "none, base, bert, mean"),
    }


def test_the_reason_names_the_numbers_of_the_other_table(
    groups,
):
    reason = (
        study("sentence-t5/table-3")
        .table.expected["table 3"]
        .contradicted["none, base, bert, mean"]
    )
    values = {
        claim.study: claim.value
        for group in groups
        for claim in group
        if claim.task == "STS12"
        and claim.cell in ("BERT avg.", "none, base, bert, mean")
    }
    assert values == {
        "prompteol/table-1-baselines": 30.87,
        "sentence-t5/table-3": 38.78,
    }
    assert "PromptEOL, table 1, has STS12 30.87" in reason
