"""How the numbers of a run were made: the protocols of its evaluators and of its encoders."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from sentbed.protocols import Score

from sentbed_report.comparability import encoder_protocol, shown
from sentbed_report.page.sections import Section, table_of
from sentbed_report.study.summary_tables import Summary
from sentbed_report.study_page.protocols_section import protocols_section
from sentbed_report.tables.table import Table


def run_protocols_section(scores: Sequence[Score], summaries: Sequence[Summary]) -> Section | None:
    """Return the entries of each table's protocol, those of each encoder, and notes; None without scores."""
    section = protocols_section(summaries)
    if section is None:
        return None
    encoders = _encoders(scores)
    tables = [*section.tables, encoders] if encoders.rows else section.tables
    notes = dict.fromkeys(f"{score.evaluator}: {score.note}" for score in scores if score.note)
    return attrs.evolve(section, tables=tables, notes=tuple(notes))


def _encoders(scores: Sequence[Score]) -> Table:
    """Return the entries of each encoder; of one that evaluators use in several ways, each value."""
    entries: dict[tuple[str, str], dict[str, None]] = {}
    for score in scores:
        for name, value in encoder_protocol(score).items():
            entries.setdefault((score.encoder, name), {})[shown(value)] = None
    rows = [(*of_entry, "; ".join(values)) for of_entry, values in entries.items()]
    return table_of("", ["encoder", "entry"], ["value"], rows)
