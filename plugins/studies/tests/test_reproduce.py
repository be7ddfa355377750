from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.study.published import Published
from sentbed_report.study.published_numbers import Number
from sentbed_report.study.study_data import StudyData
from sentbed_studies.reproduce import comparison, missed, numbers_of, verdict


def number(found: float | None, value: float = 80.0, tolerance: float | None = 0.5, fits: int = 1) -> Number:
    return Number("mean", ExpectedRow("MR", value, tolerance, "Table 1", found, fits))


@pytest.mark.parametrize(
    ("found", "said", "fails"),
    [
        (number(80.5), "within", False),
        (number(80.6), "not within", True),
        (number(math.nan), "not within", True),
        (number(None), "not measured", False),
        (number(None, fits=2), "the key fits 2 scores", True),
        (number(90.0, tolerance=None), "shown only", False),
        (number(None, tolerance=None), "not measured", False),
    ],
)
def test_what_was_measured_and_is_not_within_fails(found: Number, said: str, fails: bool) -> None:
    assert (verdict(found), missed([number(80.0), found])) == (said, fails)


def test_what_was_not_measured_is_counted_beside() -> None:
    numbers = [number(80.0), number(90.0), number(None), number(None), number(None, fits=2)]
    *_, last = comparison(numbers)
    assert last == "1 of 3 numbers within their tolerance; 2 not measured"
    *_, last = comparison(numbers[:2])
    assert last == "1 of 2 numbers within their tolerance"


def test_numbers_have_the_digits_of_the_recipe() -> None:
    _, line, _ = comparison([number(0.12341, value=0.1234, tolerance=0.0005)])
    assert line.split() == ["mean", "MR", "0.1234", "0.1234", "±0.0000", "0.0005", "within"]
    _, line, _ = comparison([number(80.0)])
    assert line.split()[2:6] == ["80.00", "80.00", "±0.00", "0.50"]


def test_an_average_of_fewer_tasks_is_not_judged_by_that_of_the_paper(
    study_of: Callable[..., StudyData],
) -> None:
    published = {"MR": 70.0, "CR": 80.0, "TREC": 99.0, "AVG": 83.0}
    expected = {"T": Published({"a": published}, 0.5), "U": Published({"b": {"MR": 1.0}})}
    numbers = {"a": {1: {"MR": 70.0, "CR": 80.0}}, "b": {1: {}}}
    found = numbers_of(study_of(numbers, statuses={"b": "failed"}, expected=expected))
    # What has not finished is left out.
    assert [(one.cell, one.row.key, verdict(one)) for one in found] == [
        *(("a", "MR", "within"), ("a", "CR", "within")),
        *(("a", "TREC", "not measured"), ("a", "AVG", "not measured")),
    ]
    assert not missed(found)
