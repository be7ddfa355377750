"""`study.json`: the record of a study's cells and their runs; its schema, writing and reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import attrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, read_json, write_atomic
from sentbed.tools import from_plain, plain

from sentbed_report.study.study_data import AxisInfo
from sentbed_report.study.study_settings import StudySettings

STUDY = "study.json"
SCHEMA = 2

RUNS = Path("runs")
"""Subdirectory of a study for its runs, each in a directory named by its key."""


@attrs.frozen
class RunRecord:
    """A run of a cell under a seed."""

    seed: int
    key: str
    """Hash of everything in the recipe that determines the run's weights."""
    evaluations: tuple[str, ...]
    """Keys of the run's evaluations, see `read_run`."""
    prompt: str = ""
    """Label of the run's prompt; empty without `[study] prompts`."""

    @property
    def directory(self) -> Path:
        """Run directory, relative to the study's directory."""
        return RUNS / self.key


@attrs.frozen
class CellRecord:
    """A cell, with the differences of its recipe from the recipe of the baseline, or of the first cell."""

    name: str
    labels: Mapping[str, str]
    differences: tuple[str, ...]
    runs: tuple[RunRecord, ...]


@attrs.frozen
class ConfirmationRecord:
    """Runs of the chosen cell with fresh seeds; see `Decide.confirm`."""

    cell: str
    runs: tuple[RunRecord, ...]


@attrs.frozen(kw_only=True)
class StudyRecord(StudySettings):
    """Content of `study.json`."""

    schema: int = SCHEMA
    name: str
    axes: tuple[AxisInfo, ...]
    baseline: str | None
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    prompts: tuple[str, ...] = ()
    """Labels of the prompts, in the recipe's order."""
    cells: tuple[CellRecord, ...]
    confirmation: ConfirmationRecord | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs, each once."""
        seeds: dict[int, None] = {}
        for cell in self.cells:
            seeds |= dict.fromkeys(run.seed for run in cell.runs)
        return tuple(seeds)


def write_study_record(directory: Path, record: StudyRecord) -> None:
    """Write `study.json`. Raises `RunError` if the disk is full."""
    write_atomic(directory / STUDY, json.dumps(plain(record), indent=1) + "\n")


def read_study_record(directory: Path) -> StudyRecord:
    """Return the content of the `study.json` in a directory.

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
        return from_plain(content, StudyRecord)
