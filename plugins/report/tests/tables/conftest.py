from __future__ import annotations

import pytest
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.published_number_config import Published
from sentbed_report.study.study_data import AxisInfo

ODD_LABEL = 'odd & 50% | <b>_x_</b> \\ "q"'
NUMBERS = {
    "first": {1: {"MR": 50.0, "CR": 60.0}, 2: {"MR": 51.0, "CR": 61.0}},
    "mean": {1: {"MR": 80.0, "CR": 90.0}, 2: {"MR": 82.0, "CR": 90.0}},
    ODD_LABEL: {1: {"MR": 49.0, "CR": -1.5}, 2: {"MR": 50.0, "CR": -2.5}},
}
EXPECTED = {"Table 1": Published({"mean": {"MR": 81.05, "CR": 90.0, "AVG": 70.0}}, 0.1)}


@pytest.fixture
def results(study_of):
    """Three cells of one axis under two seeds, with published numbers and tests against the first."""
    axis = AxisInfo("pooler", tuple(NUMBERS))
    data = study_of(NUMBERS, [axis], baseline="first", items=True, expected=EXPECTED)
    (summary,) = summarise(data)
    return summary.table
