"""Numbers, times and verdicts for readers."""

from __future__ import annotations

import math

import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.formatting import (
    chance,
    duration,
    expected_digits,
    expected_verdict,
    number,
    signed,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.005, "1.00"),
        (-2.5, "−2.50"),
        (-0.001, "0.00"),
        (None, "–"),
        (math.nan, "undefined"),
        (math.inf, "not finite"),
    ],
)
def test_a_number_has_fixed_decimals(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.0, "+1.00"), (-1.0, "−1.00"), (0.001, "±0.00"), (-0.001, "±0.00"), (None, "–")],
)
def test_a_difference_has_its_sign(value, text):
    assert signed(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (60, "1 min"), (11_523, "3 h 12 min"), (3600, "1 h 0 min")],
)
def test_a_duration_has_two_units(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("p_value", "text"),
    [(0.2, "0.200"), (0.0499, "0.050 †"), (0.05, "0.050"), (0.0002, "< 0.001 ‡")],
)
def test_a_small_p_value_has_a_sign(p_value, text):
    assert chance(p_value) == text


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
    ("measured", "met", "verdict"),
    [
        (82.13, True, "met"),
        (81.93, True, "met"),
        (82.14, False, "not met"),
        (math.nan, False, "not met"),
        (None, None, "not measured"),
    ],
)
def test_met_is_within_the_tolerance_inclusive(measured, met, verdict):
    row = ExpectedRow("k", 82.03, 0.1, "", measured)
    assert (row.met, expected_verdict(row)) == (met, verdict)
