"""Section on protocols: the settings under which the scores of a study or run were measured."""

from __future__ import annotations

from collections.abc import Sequence

from sentbed.protocols import Score
from sentbed.tools import plain

from sentbed_report.page.sections import Section, table_of
from sentbed_report.score_protocols import encoder_protocol, shown
from sentbed_report.study.summary_tables import Summary


def protocols_section(
    summaries: Sequence[Summary], scores: Sequence[Score] = ()
) -> Section | None:
    """Return the section with each table's protocol; None if no protocol has an entry.

    On the page of a run, `scores` are the run's scores. With them, the section also has the protocols of the
    encoders, and the scores' notes.
    """
    # What was measured, entry and value -> tasks with this value.
    tasks: dict[tuple[str, str, str], dict[str, None]] = {}
    for summary in summaries:
        for column in summary.columns:
            for name, value in plain(column.protocol).items():
                key = (", ".join(summary.names), str(name), shown(value))
                tasks.setdefault(key, {})[column.task] = None
    notes: dict[str, None] = {}
    for score in scores:
        for name, value in encoder_protocol(score).items():
            key = (f"encoder {score.encoder}", str(name), shown(value))
            tasks.setdefault(key, {})[score.task] = None
        if score.note:
            notes[f"{score.evaluator}: {score.note}"] = None
    if not tasks:
        return None

    rows = []
    for (what, name, value), of_value in sorted(tasks.items()):
        rows.append((what, name, value, ", ".join(of_value)))
    headers = ["protocol", "entry"]
    return Section(
        "How these numbers were made",
        "the protocol of each score",
        tables=[table_of("", headers, ["value", "tasks"], rows)],
        notes=list(notes),
    )
