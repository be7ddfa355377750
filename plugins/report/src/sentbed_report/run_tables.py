"""Tables of several finished runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed.errors import RunError, suggest
from sentbed.protocols import Score
from sentbed.tools import plain

from sentbed_report.paper_tables import PaperTable, paper_tables
from sentbed_report.run_results import read_results
from sentbed_report.score_tables import shown


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
    rows = _only(rows, "evaluator", evaluator, [score.evaluator for _, score in rows])
    entry, _, wanted = (protocol or "").rpartition("=")
    entries = [_entry(score, entry or "id") for _, score in rows]
    rows = _only(rows, "protocol", wanted or None, entries)
    rows = _only(rows, "metric", metric, [score.metric for _, score in rows])
    return paper_tables(rows)


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
