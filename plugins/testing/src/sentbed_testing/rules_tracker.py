"""Rules of the listener that a tracker builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentbed.tools import hook_faults

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings


def hooks(subject: Subject) -> Findings:
    """It implements hooks of a run, with their names and arguments."""
    yield from hook_faults(subject.ready.build())


def apart(subject: Subject) -> Findings:
    """`build` returns a new object for every run."""
    part: Any = subject.ready
    if part.build() is part.build():
        yield "`build` returns the same object twice", "make a new one for each run"


RULES = {"hooks": hooks, "apart": apart}
