from __future__ import annotations

import math
import statistics

import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.statistics.difference import Difference, Judged, Source
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.shown import shown

COLUMN = Column("MR", "accuracy", direction="higher")
# With a known variance, the interval of 95 % is 1 to 5.
KNOWN = Source((2 / 1.959964) ** 2, math.inf)
BETTER = Judged(Difference(3.0, {"seeds": KNOWN}), corrected=0.004)


def texts(estimate, column=COLUMN):
    """What readers see beside the number, as marks, and below."""
    parts = shown(estimate, column)
    return [*filter(None, [parts.spread, parts.rank, parts.sign]), *parts.below]


def test_a_number_is_the_mean_of_its_seeds_with_their_sample_deviation():
    values = {1: 70.0, 2: 72.0, 3: 71.0}
    estimate = Estimate(values)
    assert estimate.value == statistics.fmean(values.values())
    assert estimate.std == pytest.approx(statistics.stdev(values.values()))
    assert (Estimate({5: 70.0}).value, Estimate({5: 70.0}).std) == (70.0, None)
    assert (Estimate().value, Estimate().std, Estimate().is_finite) == (
        None,
        None,
        False,
    )
    assert not Estimate({1: math.nan}).is_finite


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (Estimate({1: 1.0, 2: 2.0}), ["± 0.71"]),
        (Estimate(value=1.0, rank=12), ["¹²"]),
        (Estimate(value=1.0, judged=BETTER), ["‡"]),
        (Estimate(value=1.0, judged=Judged(corrected=0.2)), []),
        (Estimate(value=1.0, degenerate="one class"), ["◇"]),
        (Estimate(value=1.0, interval=(0.5, 1.5)), ["0.50 to 1.50"]),
        (Estimate(value=1.0, change=-0.5), ["−0.50"]),
        (
            Estimate(value=1.0, published=(ExpectedRow("MR", 1.5, 0.1, "T", 1.0),)),
            ["published 1.50 (−0.50)"],
        ),
    ],
)
def test_readers_see_each_quantity(estimate, expected):
    assert texts(estimate) == expected


@pytest.mark.parametrize(
    ("direction", "kind"), [("higher", "better"), ("lower", "worse"), ("none", "")]
)
def test_the_mark_of_a_difference_says_which_way_it_is_better(direction, kind):
    column = Column("MR", direction=direction, reference="base")
    mark = shown(Estimate(value=1.0, judged=BETTER), column)
    assert mark.kind == kind
    assert mark.hint.splitlines() == [
        "+3.00 against base",
        "95 % interval 1.00 to 5.00",
        "p = 0.003; after Holm's correction p = 0.004",
        "over seeds",
    ]
