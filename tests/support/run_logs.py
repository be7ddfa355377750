"""The events in the log of a run."""

from __future__ import annotations

import json


def events(run):
    """Read the events that are whole: the last line of a run that goes on may be cut off."""
    log = run / "log.jsonl"
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def finished_steps(run):
    """The events of the steps that were finished."""
    return [event for event in events(run) if event["event"] == "step_finished"]
