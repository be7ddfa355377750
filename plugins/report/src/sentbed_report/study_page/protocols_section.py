"""Section on protocols: the settings under which the scores of a study or run were measured."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.protocols import Score
from sentbed.tools import plain

from sentbed_report.comparability import encoder_protocol, shown
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.summary_tables import Summary
from sentbed_report.tables.table import Table


def protocols_section(
    summaries: Sequence[Summary], scores: Sequence[Score] = ()
) -> Section | None:
    """Return the section with each table's protocol; None if no protocol has an entry.

    On a run's page, `scores` are the run's; they add the protocols of its encoders, and notes.
    """
    rows = []
    for summary in summaries:
        rows += [(summary.note, entry, value) for entry, value in _entries(summary)]
    if not rows:
        return None
    tables = [table_of("", ["table", "entry"], ["value"], rows), _encoders(scores)]
    notes = dict.fromkeys(
        f"{score.evaluator}: {score.note}" for score in scores if score.note
    )
    return Section(
        "How these numbers were made",
        "the protocol of each score",
        tables=[table for table in tables if table.rows],
        notes=[*notes],
    )


def _encoders(scores: Sequence[Score]) -> Table:
    """Return a table of each encoder's protocol; an entry that differs between evaluators lists all values."""
    entries: dict[tuple[str, str], dict[str, None]] = {}
    for score in scores:
        for name, value in encoder_protocol(score).items():
            entries.setdefault((score.encoder, name), {})[shown(value)] = None
    rows = [(*of_entry, "; ".join(values)) for of_entry, values in entries.items()]
    return table_of("", ["encoder", "entry"], ["value"], rows)


def _entries(summary: Summary) -> list[tuple[str, str]]:
    """Return the entries of a table's protocol: first those of all columns, then those of single columns."""
    protocols = {}
    for column in summary.columns:
        if column.protocol:
            protocols[column.task] = {
                str(k): shown(plain(v)) for k, v in column.protocol.items()
            }
    names = dict.fromkeys(name for protocol in protocols.values() for name in protocol)
    common: list[tuple[str, str]] = []
    varying: list[tuple[str, str]] = []
    for name in names:
        values = {task: protocol.get(name, "–") for task, protocol in protocols.items()}
        if len(set(values.values())) == 1:
            common.append((name, next(iter(values.values()))))
        else:
            varying += [(f"{name} of {task}", value) for task, value in values.items()]
    return common + varying
