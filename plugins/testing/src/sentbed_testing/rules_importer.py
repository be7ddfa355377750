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
        empty = Path(name) / "empty"
        empty.mkdir()
        text_file = Path(name) / "notes.txt"
        text_file.write_text("no encoder", encoding="utf-8")
        sources = {
            "a path that does not exist": Path(name) / "missing",
            "an empty directory": empty,
            "a text file": text_file,
        }
        for what, source in sources.items():
            answer = subject.ready.recognises(source)
            if answer is not False:
                yield (
                    f"for {what} `recognises` returns {answer!r}",
                    "return whether the files that it reads are there",
                )


RULES = {"recognises": recognises}
