"""Tables of several finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.errors import RunError, suggest
from sentbed.protocols import Score
from sentbed.tools import plain

from sentbed_report.paper_style_tables import PaperTable, paper_tables
from sentbed_report.run_results import read_results
from sentbed_report.score_tables import shown
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.runs_as_study import runs_as_study
from sentbed_report.study.study_data import CellRun
from sentbed_report.study.summary_tables import Summary


def run_tables(
    runs: Sequence[str | Path],
    evaluator: str | None = None,
    protocol: str | None = None,
    metric: str | None = None,
) -> tuple[PaperTable, ...]:
    """Make the tables of several runs: one table per evaluator, one row per encoder.

    `protocol` takes the scores of one protocol id only, or, as `ENTRY=VALUE`, those whose protocol has it:
    `classifier.protocol=logistic`.

    Raises:
        RunError: if a column would have scores of different protocols, or no score is left.
    """
    found = [read_results(run) for run in runs]
    names = Counter(one.name for one in found)
    rows = []
    for one in found:
        label = one.name if names[one.name] == 1 else str(one.directory)
        prefix = f"{label}/" if len(found) > 1 else ""
        rows += [(prefix + score.encoder, score) for score in one.scores]
    return paper_tables(_chosen(rows, evaluator, protocol, metric))


def study_tables(
    directories: Sequence[str | Path],
    evaluator: str | None = None,
    protocol: str | None = None,
    metric: str | None = None,
) -> tuple[Summary, ...]:
    """Make the tables of studies, and of runs beside them: one row per cell, mean over its seeds.

    The arguments are those of `run_tables`.

    Raises:
        RunError: if no score is left.
    """
    data = runs_as_study([*map(Path, directories)])
    rows = [("", score) for cell in data.cells for run in cell.runs for score in run.scores]
    kept = {id(score) for _, score in _chosen(rows, evaluator, protocol, metric)}

    def narrowed(run: CellRun) -> CellRun:
        return attrs.evolve(run, scores=tuple(score for score in run.scores if id(score) in kept))

    cells = (attrs.evolve(cell, runs=tuple(map(narrowed, cell.runs))) for cell in data.cells)
    found = summarise(attrs.evolve(data, cells=tuple(cells)))
    if not found:
        raise RunError("none of the runs has finished with scores; add an `[[evaluate]]` to their recipes")
    return found


def _chosen(
    rows: list[tuple[str, Score]], evaluator: str | None, protocol: str | None, metric: str | None
) -> list[tuple[str, Score]]:
    """Return the scores that are asked for, with their rows."""
    rows = _only(rows, "evaluator", evaluator, [score.evaluator for _, score in rows])
    entry, _, wanted = (protocol or "").rpartition("=")
    entries = [_entry(score, entry or "id") for _, score in rows]
    rows = _only(rows, "protocol", wanted or None, entries)
    return _only(rows, "metric", metric, [score.metric for _, score in rows])


def _entry(score: Score, path: str) -> str:
    """Return a protocol's entry at a path, first from the evaluator's part; empty if there is none."""
    for part in (score.evaluator_protocol, score.protocol["encoder"]):
        found: Any = part
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        if found is not None:
            return shown(plain(found))
    return ""


def _only(
    rows: list[tuple[str, Score]], what: str, wanted: str | None, found: Sequence[str]
) -> list[tuple[str, Score]]:
    if wanted is None:
        return rows
    if wanted not in found:
        hint = suggest(wanted, [value for value in dict.fromkeys(found) if value])
        raise RunError(f"no score is of the {what} `{wanted}`.{hint}")
    return [row for row, value in zip(rows, found, strict=True) if value == wanted]
