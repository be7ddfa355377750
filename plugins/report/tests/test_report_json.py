"""`report.json`: its keys, and values that JSON has not."""

from __future__ import annotations

import enum
import json
import math
from pathlib import Path

import attrs
import numpy as np
import pytest
from sentbed.protocols import ExpectedRow, StageCurve
from sentbed.tools import plain
from sentbed_report.report_json import to_json
from toy_run_report import EMPTY, full, score
from toy_study import hits

PROTOCOL = {
    "encoder": {},
    "evaluator": {"id": "senteval-sts", "aggregation": "all", "data": "STS12"},
}


def test_json_has_its_keys():
    document = json.loads(to_json(full()))

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


def test_json_has_intervals_where_scores_have_items():
    scores = []
    for encoder, share in (("encoder@start", 0.5), ("encoder", 0.7), ("other", None)):
        measured = score("MR", 50.0, encoder)
        if share is not None:
            measured = attrs.evolve(measured, items=hits(share, 1))
        scores.append(measured)

    data = attrs.evolve(EMPTY, scores=tuple(scores))
    start, end, other = json.loads(to_json(data))["scores"]

    assert start["interval"] == list(data.intervals[0].interval)
    assert "change" not in start

    change = data.intervals[1].change

    assert end["change"] == {
        "difference": change.difference,
        "interval": list(change.interval or ()),
        "p_value": change.p_value,
    }
    assert "interval" not in other


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
    document = json.loads(to_json(data), parse_constant=refuse)

    assert document["seconds"] is None
    assert document["scores"][0]["value"] is None
    assert document["scores"][0]["protocol"]["evaluator"]["threshold"] is None
    assert document["expected"][0]["met"] is False
    assert document["stages"][0]["losses"] == [None]
    assert document["manifest"] == {"x": [None]}


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.float32(0.5), 0.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.float64("nan"), None),
        (Path("a/b"), "a/b"),
        ({"k": (2, {"b", "a"})}, {"k": [2, ["a", "b"]]}),
        (True, True),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
    ],
)
def test_values_become_plain_json(value, expected):
    assert plain(value) == expected

    json.dumps(plain(value), allow_nan=False)
