"""Section on protocols: the settings under which the scores of a study or run were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from sentbed.protocols import Score
from sentbed.tools import plain

from sentbed_report.page.sections import Section, table_of
from sentbed_report.score_protocols import encoder_protocol, shown
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.table import Table

_LABELS = {"similarity": "similarity of encoders that name none"}


def protocols_section(
    summaries: Sequence[Summary], scores: Sequence[Score] = ()
) -> Section | None:
    """Return the section with each table's protocol; None if no protocol has an entry.

    On the page of a run, `scores` are the run's scores. With them, the section also has the protocols of the
    encoders, and the scores' notes.
    """
    rows = []
    for summary in summaries:
        for entry, value in _entries(summary):
            rows.append((summary.note, entry, value))
    if not rows:
        return None

    tables = [table_of("", ["table", "entry"], ["value"], rows)]
    encoders = _encoders(scores)
    if encoders.rows:
        tables.append(encoders)
    return Section(
        "How these numbers were made",
        "the protocol of each score",
        tables=tables,
        notes=_notes(scores),
    )


def _notes(scores: Sequence[Score]) -> list[str]:
    """Return the notes of scores, each once, under the evaluators' names."""
    notes: list[str] = []
    for score in scores:
        note = f"{score.evaluator}: {score.note}"
        if score.note and note not in notes:
            notes.append(note)
    return notes


def _encoders(scores: Sequence[Score]) -> Table:
    """Return a table of the encoders' protocols; an entry that differs between evaluators has all its values."""
    entries: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for score in scores:
        for name, value in encoder_protocol(score).items():
            values = entries[score.encoder, name]
            text = shown(value)
            if text not in values:
                values.append(text)

    rows = []
    for (encoder, name), values in entries.items():
        rows.append((encoder, name, "; ".join(values)))
    return table_of("", ["encoder", "entry"], ["value"], rows)


def _entries(summary: Summary) -> list[tuple[str, str]]:
    """Return the entries of a table's protocol: first those of all columns, then those of single columns."""
    tasks = []
    entries: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for column in summary.columns:
        if not column.protocol:
            continue
        tasks.append(column.task)
        for name, value in column.protocol.items():
            label = _LABELS.get(name, str(name))
            entries[label][column.task] = shown(plain(value))

    common: list[tuple[str, str]] = []
    varying: list[tuple[str, str]] = []
    for name, value_of_task in entries.items():
        values = [value_of_task.get(task, "–") for task in tasks]
        if len(set(values)) == 1:
            common.append((name, values[0]))
            continue
        for task, value in zip(tasks, values, strict=True):
            varying.append((f"{name} of {task}", value))
    return common + varying
