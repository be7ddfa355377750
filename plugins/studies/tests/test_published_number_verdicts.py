from __future__ import annotations

import math

import attrs
import pytest
from sentbed.protocols import ExpectedRow
from sentbed_report.study.published_number_comparison import Number
from sentbed_report.study.published_number_config import Published
from sentbed_studies.published_number_verdicts import (
    comparison,
    missed,
    numbers_of,
    verdict,
)


def number(
    measured,
    value=80.0,
    tolerance=0.5,
    fits=1,
):
    return Number(
        "mean", ExpectedRow("MR", value, tolerance, "Table 1", measured, fits)
    )


@pytest.mark.parametrize(
    ("number_of_cell", "word", "fails"),
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
def test_what_was_measured_and_is_not_within_fails(number_of_cell, word, fails):
    assert verdict(number_of_cell) == word
    assert missed([number(80.0), number_of_cell]) == fails


def test_what_was_not_measured_is_counted_beside():
    numbers = [
        number(80.0),
        number(90.0),
        number(None),
        number(None),
        number(None, fits=2),
    ]
    *_, last = comparison(numbers)
    assert last == "1 of 3 numbers within their tolerance; 2 not measured"
    *_, last = comparison(numbers[:2])
    assert last == "1 of 2 numbers within their tolerance"


def test_a_contradicted_number_is_shown_with_its_reason_and_counts_neither_way():
    row = ExpectedRow(
        "MR",
        38.8,
        None,
        "Table 1",
        30.9,
        contradicted="table 3 of another paper has 30.9",
    )
    off = Number("first", row)
    again = Number("first", attrs.evolve(row, key="CR"))
    assert verdict(off) == "contradicted"
    assert not missed([number(80.0), off, again])
    *table, count, reason = comparison([number(80.0), off, again])
    assert table[2].split() == [
        "first",
        "MR",
        "30.90",
        "38.80",
        "−7.90",
        "contradicted",
    ]
    assert (
        count
        == "1 of 1 number within their tolerance; 2 contradicted, which do not count"
    )
    assert reason == "contradicted: Table 1, first: table 3 of another paper has 30.9"


def test_numbers_have_the_digits_of_the_recipe():
    _, line, _ = comparison([number(0.12341, value=0.1234, tolerance=0.0005)])
    assert line.split() == [
        "mean",
        "MR",
        "0.1234",
        "0.1234",
        "±0.0000",
        "0.0005",
        "within",
    ]
    _, line, _ = comparison([number(80.0)])
    assert line.split()[2:6] == ["80.00", "80.00", "±0.00", "0.50"]


def test_an_average_of_fewer_tasks_is_not_judged_by_that_of_the_paper(
    study_of,
):
    published = {"MR": 70.0, "CR": 80.0, "TREC": 99.0, "AVG": 83.0}
    expected = {
        "T": Published({"a": published}, 0.5),
        "U": Published({"b": {"MR": 1.0}}),
    }
    numbers = {"a": {1: {"MR": 70.0, "CR": 80.0}}, "b": {1: {}}}
    data = study_of(numbers, statuses={"b": "failed"}, expected=expected)
    compared = numbers_of(data)
    # The cell that has not finished is left out.
    assert [(number.cell, number.row.key, verdict(number)) for number in compared] == [
        ("a", "MR", "within"),
        ("a", "CR", "within"),
        ("a", "TREC", "not measured"),
        ("a", "AVG", "not measured"),
    ]
    assert not missed(compared)


def test_two_averages_of_a_published_row_are_each_compared_with_their_own(
    study_of,
):
    transfer = {"MR": 70.0, "CR": 80.0, "AVG/accuracy": 75.0}
    published = {
        **transfer,
        "STS12": 60.0,
        "STSB": 70.0,
        "SICKR": 80.0,
        "AVG/spearman": 70.0,
    }
    scores = {
        "MR": 70.0,
        "CR": 80.0,
        "STS12/spearman": 60.0,
        "STSB/spearman": 70.0,
        "SICKR/spearman": 80.0,
    }
    data = study_of(
        {"a": {1: scores}}, expected={"T": Published({"a": published}, 0.5)}
    )
    by_two_evaluators = []
    for score in data.cells[0].runs[0].scores:
        evaluator = "sts" if score.metric == "spearman" else score.evaluator
        by_two_evaluators.append(attrs.evolve(score, evaluator=evaluator))
    numbers = measured(data, by_two_evaluators)
    assert list(numbers.items()) == list(published.items())

    # A number of a task that was not run may be of either average.
    fewer = [score for score in by_two_evaluators if score.task != "STS12"]
    numbers = measured(data, fewer)
    assert (numbers["AVG/accuracy"], numbers["AVG/spearman"]) == (None, None)


def measured(data, scores):
    """Key of each published number -> the measured one, where the only run has these scores."""
    (cell,) = data.cells
    (run,) = cell.runs
    run = attrs.evolve(run, scores=tuple(scores))
    data = attrs.evolve(data, cells=(attrs.evolve(cell, runs=(run,)),))
    return {number.row.key: number.row.found for number in numbers_of(data)}
