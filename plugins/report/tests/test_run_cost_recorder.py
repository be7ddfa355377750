"""Cost of runs: in the report, and in the time of all runs of a study."""

from __future__ import annotations

import json

import attrs
import pytest
from sentbed.protocols import ReportData, Run
from sentbed.tools import record_json
from sentbed_report.run_cost_recorder import RunCostRecorder
from sentbed_report.study.study_data import with_runs
from sentbed_report.study_page.runs_section import summary_line, total_seconds

FACTS = {
    "engine": {"memory_gib": 80.0, "processes": 2},
    "counters": {"device_memory_gib": 2.0},
    "trained_tokens": 4000,
    "parameters": {"en": (1_000_000, 200_000), "zh": (500_000, 0)},
}


def recorded(facts, tmp_path):
    """Return the `report.json` of a run of 10 seconds with these facts."""
    sections = RunCostRecorder().report_sections(Run("r", tmp_path, None, facts))
    started = "2026-01-01T00:00:00+00:00"
    data = ReportData("r", "finished", None, started, 10.0, "", {}, sections=sections)
    return json.loads(record_json(data))


@pytest.mark.parametrize(
    ("engine", "devices"),
    [
        ({"device": "abacus"}, None),
        ({"platform": "cpu", "devices": 8}, None),
        ({"platform": "tpu", "devices": 4}, 4),
        ({"memory_gib": 80.0}, 1),
        ({"memory_gib": 80.0, "processes": 2}, 2),
    ],
)
def test_devices_are_those_beside_the_processor(engine, devices, tmp_path):
    record = recorded({**FACTS, "engine": engine}, tmp_path)
    rows = {row[0]: row[2] for row in record["sections"]["run-cost"]["rows"]}
    assert rows.get("devices") == devices


def test_the_cost_of_a_run_is_that_of_all_its_encoders(tmp_path):
    assert recorded(FACTS, tmp_path)["sections"]["run-cost"]["rows"] == [
        ["devices", "devices", 2],
        ["device-memory", "MiB", 2048.0],
        ["tokens", "tokens", 4000],
        ["parameters", "millions", 1.5],
    ]
    assert not recorded({}, tmp_path).get("sections")


def test_the_page_counts_a_run_of_two_cells_once(study_of, tmp_path):
    data = study_of({"a": {1: {"MR": 50.0}}, "b": {1: {"MR": 50.0}}})

    def in_one_directory(run):
        return attrs.evolve(run, seconds=2.5, directory=tmp_path)

    data = attrs.evolve(data, cells=with_runs(data.cells, in_one_directory))

    assert summary_line(data).endswith(" 2.5 s of runs.")


def test_shared_stages_count_once_in_the_time_of_a_study(study_of):
    own = {"a": 1.0, "b": 2.0, "c": 4.0}
    shared = {
        "a": {"pairs-1": 100.0, "tune-2": 10.0},
        "b": {"pairs-1": 100.0, "tune-2": 10.0},
        "c": {"pairs-1": 100.0},
    }
    data = study_of({name: {1: {"MR": 50.0}} for name in own})

    def with_seconds(run):
        of_stages = shared[run.cell]
        seconds = own[run.cell] + sum(of_stages.values())
        record = {"manifest": {"shared_seconds": of_stages}}
        return attrs.evolve(run, seconds=seconds, record=record)

    data = attrs.evolve(data, cells=with_runs(data.cells, with_seconds))

    assert total_seconds(data) == 100 + 10 + 1 + 2 + 4
