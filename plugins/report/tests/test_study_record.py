"""What `study.json` holds is read as it was written, and of other types it is refused."""

from __future__ import annotations

import json

import pytest
from sentbed import RunError
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study.study_record import (
    STUDY,
    CellRecord,
    ConfirmationRecord,
    RunRecord,
    StudyRecord,
    read_study_record,
    write_study_record,
)

RUN = RunRecord(1, "00ff", ("aa", "bb"))
RECORD = StudyRecord(
    name="poolers",
    axes=(AxisInfo("pooler", ("first", "mean")), AxisInfo("lr", ("1e-3",), (0.001,))),
    baseline="mean, 1e-3",
    excluded=(("first, 1e-3", ("a batch is too large",)),),
    expected={
        "Table 1": Published({"mean, 1e-3": {"MR": 80, "CR": 75.5}}, tolerance=0.5)
    },
    references={"BERT": Reference(scores={"MR": 70.0})},
    ranks=(),
    decide=Decide(tasks=("MR",), confirm=2),
    cells=(CellRecord("mean, 1e-3", {"pooler": "mean", "lr": "1e-3"}, (), (RUN,)),),
    confirmation=ConfirmationRecord("mean, 1e-3", (RunRecord(8, "11ee", ()),)),
)


def test_a_study_is_read_as_it_was_written(tmp_path):
    write_study_record(tmp_path, RECORD)
    record = read_study_record(tmp_path)
    assert record == RECORD
    assert record.seeds == (1,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", 3),
        ("axes", [{"name": "a", "labels": ["x"], "numbers": ["1"]}]),
        ("baseline", True),
        ("decide", {"confirm": 1}),
        ("cells", [{"name": "a", "labels": [], "differences": [], "runs": []}]),
        (
            "confirmation",
            {"cell": "a", "runs": [{"seed": 1.5, "key": "", "evaluations": []}]},
        ),
    ],
)
def test_a_value_of_another_type_is_refused(tmp_path, key, value):
    write_study_record(tmp_path, RECORD)
    content = json.loads((tmp_path / STUDY).read_text())
    (tmp_path / STUDY).write_text(json.dumps({**content, key: value}))
    with pytest.raises(
        RunError, match=r"study\.json` is damaged: .*; run `sentbed study` there again"
    ):
        read_study_record(tmp_path)
