"""Rules of what a tracker builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentbed.tools import hook_faults

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings


def hooks(subject: Subject) -> Findings:
    """It implements hooks of a run, by their names and with their arguments."""
    yield from hook_faults(subject.ready.build())


def apart(subject: Subject) -> Findings:
    """Every run gets a tracker of its own."""
    part: Any = subject.ready
    if part.build() is part.build():
        yield "`build` returns the same object twice", "make a new one for each run"


RULES = {"hooks": hooks, "apart": apart}
