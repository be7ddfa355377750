"""`study.json`: the schema of a study's record, with its cells and their runs; it is written and read here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import cattrs
from sentbed.errors import RunError
from sentbed.helpers import foreign, write_atomic

from sentbed_report.report_json import read_record
from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.published_number_config import Published, Reference
from sentbed_report.study.published_scores import PublishedSystem
from sentbed_report.study.study_data import AxisInfo, Family, PromptFactor

STUDY = "study.json"
SCHEMA = 1


@attrs.frozen
class RunRecord:
    """A run of a cell."""

    seed: int
    key: str
    """Hash of everything in the recipe that determines the run's weights."""
    directory: str
    """Run directory, relative to the study's."""
    evaluations: tuple[str, ...] | None = None
    """Keys of the run's evaluations; None in studies of earlier versions."""
    prompt: str = ""
    """Label of the run's prompt; empty without `[study] prompts`."""


@attrs.frozen
class CellRecord:
    """A cell, and how its recipe differs from the recipe of the baseline, or of the first cell."""

    name: str
    labels: Mapping[str, str]
    differences: tuple[str, ...]
    runs: tuple[RunRecord, ...]


@attrs.frozen
class ConfirmationRecord:
    """Runs of the chosen cell with fresh seeds."""

    cell: str
    runs: tuple[RunRecord, ...]


@attrs.frozen(kw_only=True)
class StudyRecord:
    """Content of `study.json`, in the order of its keys; studies of earlier versions lack some of them."""

    schema: int = SCHEMA
    name: str
    axes: tuple[AxisInfo, ...]
    baseline: str | None
    excluded: tuple[tuple[str, tuple[str, ...]], ...]
    expected: Mapping[str, Published]
    references: Mapping[str, Reference] = attrs.field(factory=dict)
    """References without `results`."""
    published: tuple[PublishedSystem, ...] = ()
    """Scores that were read from the `results` of the other references."""
    order: tuple[str, ...]
    ranks: tuple[str, ...] | None = None
    colour: str = ""
    cost: str = ""
    decide: Decide | None = None
    stop: Mapping[str, Any] | None = None
    """The table `[study.stop]`."""
    sampler: Mapping[str, Any] | None = None
    """The table `[study.sampler]`."""
    equivalence: float | None = None
    family: Family = "column"
    groups: bool = True
    prompts: tuple[str, ...] = ()
    """Labels of the prompts, in the recipe's order."""
    prompt_factor: PromptFactor = "random"
    cells: tuple[CellRecord, ...]
    sampled: tuple[str, ...] = ()
    """Cells that the sampler has chosen until now."""
    confirmation: ConfirmationRecord | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(
            dict.fromkeys(run.seed for cell in self.cells for run in cell.runs)
        )


def _checked(value: Any, kind: Any) -> Any:
    """Return a value if it has the JSON type `kind`; values are not converted. Raises `TypeError`."""
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise TypeError(f"found {value!r:.80}, expected {kind.__name__}")


_CONVERTER = cattrs.Converter(detailed_validation=False)
for _kind in (str, int, float, bool):
    _CONVERTER.register_structure_hook(_kind, _checked)


def write_study_record(directory: Path, record: StudyRecord) -> None:
    """Write `study.json`. Raises `RunError` if the disk is full."""
    write_atomic(directory / STUDY, json.dumps(attrs.asdict(record), indent=1) + "\n")


def read_study_record(directory: Path) -> StudyRecord:
    """Return the content of the `study.json` in a directory.

    Raises:
        RunError: if there is none, or it is damaged or of another version.
        DataError: if it is not a regular file, or too large.
    """
    path = directory / STUDY
    try:
        content = read_record(path)
    except OSError as error:
        message = (
            f"`{directory}` is no study (no `{STUDY}` in it); name the directory of one"
        )
        raise RunError(message) from error
    except ValueError as error:
        message = f"`{path}` is damaged: {error}; run `sentbed study` there again"
        raise RunError(message) from error
    with foreign(RunError, f"`{path}` is damaged", "run `sentbed study` there again"):
        schema = content.get("schema")
        if schema != SCHEMA:
            raise RunError(
                f"`{path}` has schema {schema!r:.80}, this version reads {SCHEMA}"
            )
        return _CONVERTER.structure(content, StudyRecord)
