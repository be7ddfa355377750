"""Studies on clean items."""

from __future__ import annotations

from sentbed_audit.clean.clean_study import on_clean_items
from sentbed_audit.clean.overlap import Overlap, Training
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import StudyData


def test_published_numbers_are_left_out_since_they_are_over_all_items():
    expected = {"table": Published({"cell": {"STS12": 50.0}})}
    references = {"system": Reference({"STS12": 50.0})}
    data = StudyData(
        name="study",
        axes=(),
        cells=(),
        baseline=None,
        seeds=(1,),
        expected=expected,
        references=references,
    )
    clean = on_clean_items(data, Overlap((), Training()))
    assert not clean.expected
    assert not clean.references
