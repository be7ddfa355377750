"""`study.json`: the content of a study's directory without the state of its runs; its writing and reading."""

from __future__ import annotations

import json
from pathlib import Path

from sentbed.errors import RunError
from sentbed.helpers import foreign, read_json, write_atomic
from sentbed.tools import from_plain, plain

from sentbed_report.study.study_data import StudyData

STUDY = "study.json"
SCHEMA = 3

_STATE = (
    "status",
    "directory",
    "error",
    "seconds",
    "scores",
    "record",
)
"""Fields of a run that are read from its own directory."""


def write_study_file(directory: Path, data: StudyData) -> None:
    """Write `study.json`. Raises `RunError` if the disk is full."""
    content = {"schema": SCHEMA, **plain(data)}
    # The recipe is in a file of its own.
    del content["recipe"], content["directory"]
    for cell in content["cells"]:
        for run in (*cell["runs"], *cell["confirmation"]):
            for name in _STATE:
                del run[name]
    write_atomic(directory / STUDY, json.dumps(content, indent=1) + "\n")


def read_study_file(directory: Path) -> StudyData:
    """Return the study of the `study.json` in a directory, as if no run had begun.

    Raises:
        RunError: if there is no such file, or it is damaged or of another version.
        DataError: if it is not a regular file, or is too large.
    """
    path = directory / STUDY
    try:
        content = read_json(path)
    except OSError as error:
        raise RunError(
            f"`{directory}` is no study (no `{STUDY}` in it); name the directory of a study"
        ) from error
    except ValueError as error:
        message = f"`{path}` is damaged: {error}; run `sentbed study` there again"
        raise RunError(message) from error
    with foreign(RunError, f"`{path}` is damaged", "run `sentbed study` there again"):
        schema = content.get("schema")
        if schema != SCHEMA:
            raise RunError(
                f"`{path}` has schema {schema!r:.80}, this version reads {SCHEMA}"
            )
        return from_plain(content, StudyData)
