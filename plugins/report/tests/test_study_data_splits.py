"""Scores on data by which anything was chosen are none on test data, unless they are declared so."""

from __future__ import annotations

import pytest
from sentbed.protocols import Score
from sentbed_report.data_splits import is_development
from sentbed_report.study.study_data import CellInfo, CellRun, with_decided_splits

FILE, OTHER = "a" * 64, "b" * 64


def score(split, data):
    protocol = {"encoder": {}, "evaluator": {"split": split, "data": data}}
    return Score("pairs", "spearman", 50.0, protocol, "en", "sts")


def cell(*scores, **manifest):
    run = CellRun("a", 1, "finished", scores=scores, record={"manifest": manifest})
    return CellInfo("a", {}, (run,))


def development(*cells):
    """Return of each score whether it is on development data, when all scores of the study are known."""
    runs = [run for cell in with_decided_splits(cells) for run in cell.runs]
    return [is_development(score) for run in runs for score in run.scores]


@pytest.mark.parametrize("split", ["", "whole file", "first lines"])
@pytest.mark.parametrize("data", [FILE, [OTHER, FILE], {"pairs": FILE}])
def test_a_file_that_another_score_declares_is_development_data_everywhere(split, data):
    declared, undeclared = (
        cell(score("dev", FILE)),
        cell(score(split, data), score(split, OTHER)),
    )
    assert development(declared, undeclared) == [True, True, False]
    assert development(undeclared) == [False, False]


def test_a_file_by_which_a_validation_chose_weights_is_development_data():
    assert development(cell(score("whole file", FILE), chosen_on=[FILE])) == [True]
    assert development(cell(score("whole file", FILE), chosen_on=[OTHER])) == [False]


def test_what_is_declared_as_test_data_stays_so():
    assert development(cell(score("test", FILE), chosen_on=[FILE])) == [False]
