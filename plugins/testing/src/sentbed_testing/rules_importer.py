"""Rules of an importer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sentbed_testing.component_under_test import Subject

if TYPE_CHECKING:
    from sentbed_testing.conformance import Findings


def recognises(subject: Subject) -> Findings:
    """`recognises` returns False for an empty directory, a text file and a path that does not exist."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        sources = {
            "a path that does not exist": directory / "missing",
            "an empty directory": directory,
            "a text file": directory / "notes.txt",
        }
        for what, source in sources.items():
            if what == "a text file":
                source.write_text("no encoder", encoding="utf-8")
            answer = subject.ready.recognises(source)
            if answer is not False:
                yield (
                    f"for {what} `recognises` returns {answer!r}",
                    "return whether the files that it reads are there",
                )


RULES = {"recognises": recognises}
