"""Rules of a tracker, whose `build` returns the listener of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sentbed.tools import hook_faults

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings


def hooks(subject: Subject) -> Findings:
    """The listener implements hooks of a run, with the names and arguments that the hooks have."""
    for fault in hook_faults(subject.ready.build()):
        yield fault, "see `docs/hooks.md`"


def apart(subject: Subject) -> Findings:
    """`build` returns a new listener for every run."""
    part: Any = subject.ready
    if part.build() is part.build():
        yield (
            "`build` returns the same object twice",
            "create a new object for each run",
        )


RULES = {"hooks": hooks, "apart": apart}
