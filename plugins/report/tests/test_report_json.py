"""`report.json`: its keys, and values that JSON has not."""

from __future__ import annotations

import json
import math

import attrs
from sentbed.protocols import ExpectedRow, StageCurve
from sentbed.tools import record_json
from toy_run_report import EMPTY, full, score

PROTOCOL = {
    "encoder": {},
    "evaluator": {"id": "senteval-sts", "aggregation": "all", "data": "STS12"},
}


def test_json_has_its_keys():
    document = json.loads(record_json(full()))

    assert list(document) == [
        *("name", "status", "error", "warnings", "started", "seconds"),
        *("scores", "expected", "stages", "manifest"),
    ]
    assert document["scores"][0] == {
        "encoder": "encoder@start",
        "evaluator": "sts",
        "task": "STS12",
        "metric": "spearman",
        "value": 50.0,
        "direction": "higher",
        "protocol": PROTOCOL,
    }
    assert [row["met"] for row in document["expected"]] == [True, False, None]
    assert document["stages"][0]["validations"] == [[10, 70.0], [20, 80.5], [30, 79.0]]
    assert document["stages"][0]["best_step"] == 20


def test_json_has_null_for_what_is_not_finite():
    def refuse(constant):
        raise AssertionError(constant)

    data = attrs.evolve(
        EMPTY,
        seconds=math.inf,
        scores=(score("a", math.nan, threshold=-math.inf),),
        expected=(ExpectedRow("a", 1.0, 0.1, "", math.nan),),
        stages=(StageCurve("s", [1], [math.nan], [math.inf], [(1, math.nan)]),),
        manifest={"x": [math.nan]},
    )
    document = json.loads(record_json(data), parse_constant=refuse)

    assert document["seconds"] is None
    assert document["scores"][0]["value"] is None
    assert document["scores"][0]["protocol"]["evaluator"]["threshold"] is None
    assert document["expected"][0]["met"] is False
    assert document["stages"][0]["losses"] == [None]
    assert document["manifest"] == {"x": [None]}
