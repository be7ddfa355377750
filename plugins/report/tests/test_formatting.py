"""Numbers, times and verdicts for readers."""

from __future__ import annotations

import math

import attrs
import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.formatting import (
    duration,
    expected_digits,
    expected_verdict,
)
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study_page.published_section import met_line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (60, "1 min"), (11_523, "3 h 12 min"), (3600, "1 h 0 min")],
)
def test_a_duration_has_two_units(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "tolerance", "digits"),
    [
        (77.1, 0.5, 2),
        (0.203, 0.005, 3),
        (80.0, 1.0, 2),
        (1.0, 1e-9, 6),
        (100.0, math.inf, 2),
    ],
)
def test_an_expected_number_is_printed_as_exactly_as_it_is_stated(
    value, tolerance, digits
):
    assert expected_digits(ExpectedRow("k", value, tolerance, "", None)) == digits


@pytest.mark.parametrize(
    ("fields", "verdict", "missed"),
    [
        ({"found": 82.13}, "met", False),
        ({"found": 81.93}, "met", False),
        ({"found": 82.14}, "not met", True),
        ({"found": math.nan}, "not met", True),
        ({"found": None}, "not measured", False),
        ({"found": None, "fits": 2}, "fits 2 scores: ", True),
        ({"found": 90.0, "tolerance": None}, "to compare", False),
        ({"found": None, "tolerance": None}, "not measured", False),
        (
            {"found": 90.0, "tolerance": None, "contradicted": "a misprint"},
            "contradicted",
            False,
        ),
    ],
)
def test_what_was_measured_and_is_not_within_its_tolerance_is_missed(
    fields, verdict, missed
):
    row = ExpectedRow(
        **{"key": "k", "value": 82.03, "tolerance": 0.1, "source": "", **fields}
    )
    assert expected_verdict(row).startswith(verdict)
    assert Number("cell", row).is_missed == missed


def test_only_numbers_with_a_tolerance_are_counted():
    met = ExpectedRow("k", 82.03, 0.1, "", 82.0)
    rows = [met, attrs.evolve(met, found=None), attrs.evolve(met, tolerance=None)]
    assert met_line(rows) == "1 of 2 expected numbers met, 1 not measured"
    assert met_line(rows[2:]) == "to compare with"
