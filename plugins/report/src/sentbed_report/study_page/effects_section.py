"""Section on the effects of a study's axes (factors): of each label (level)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sentbed_report.formatting import sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.axis_tests import AxisFindings
from sentbed_report.study.study_data import StudyData, sources_of_tests
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_NOTES = (
    "Difference: from the reference, over all pairs of cells that differ in nothing else, with the standard "
    "deviation over the pairs and their number. The deviation shows how much the effect differs between "
    "combinations, but not how much it depends on seeds and test items.",
    "Interval and mark of a difference are over {sources}, for these combinations; p-values are "
    "corrected over all labels of all axes (Holm).",
)


def effects_section(
    data: StudyData, findings: Sequence[AxisFindings]
) -> Section | None:
    """Return the section with the effects of single axes; None if `findings` is empty."""
    if not findings:
        return None

    notes = []
    for note in _NOTES:
        notes.append(note.format(sources=sources_of_tests(data)))
    tables = []
    for findings_of_table in findings:
        summary = findings_of_table.summary
        for remark in _remarks(findings_of_table):
            notes.append(f"{title_of(summary)}: {remark}")
        if findings_of_table.compared:
            tables.append(_effect_table(findings_of_table))

    return Section(
        "Effects",
        effects_line(findings[0]),
        tables=tables,
        notes=notes,
    )


def effects_line(findings: AxisFindings) -> str:
    """Return a line: the largest effect of each axis in a table, each with interval and significance mark."""
    return "; ".join(_axis_lines(findings))


def _axis_lines(findings: AxisFindings) -> Iterator[str]:
    """Yield a text for each axis whose labels are compared."""
    digits = findings.summary.digits
    for effect in findings.compared:
        differences: dict[str, float] = {}
        for label in effect.labels:
            if label.difference is not None:
                differences[label.label] = label.difference
        if not differences:
            continue

        largest = max(differences, key=lambda name: abs(differences[name]))
        text = f"{effect.axis}: {largest} "
        test = findings.tests.get((effect.axis, largest))
        if test is None or test.interval is None:
            text += signed(differences[largest], digits)
        else:
            # If cells have different seeds, the test is over fewer seeds, and has another difference.
            low, high = test.interval
            text += signed(test.difference, digits)
            text += f" ({signed(low, digits)} to {signed(high, digits)})"
            text += sign_of(test.corrected)
        text += f" against {effect.reference}"

        if test is not None and _is_significant_only_alone(test):
            text += ", not significant among all labels"
        yield text


def _is_significant_only_alone(test: Judged) -> bool:
    """Whether a difference is significant without the correction for several tests, and is not with it."""
    if test.interval is None or sign_of(test.corrected):
        return False
    low, high = test.interval
    return low > 0 or high < 0


def _effect_table(findings: AxisFindings) -> Table:
    """Return a table with one row per label that is compared with the reference label of its axis."""
    summary = findings.summary
    direction = summary.columns[-1].direction
    columns = (
        "against",
        Column(
            "difference",
            direction=direction,
            form="signed",
            digits=summary.digits,
        ),
    )
    rows = []
    for effect in findings.compared:
        for label in effect.labels:
            if not label.pairs:
                continue
            test = findings.tests.get((effect.axis, label.label))
            interval = None if test is None else test.interval
            difference = Estimate(
                value=label.difference,
                std=label.std,
                interval=interval,
                count=label.pairs,
                judged=test,
            )
            rows.append((effect.axis, label.label, effect.reference, difference))
    return table_of(title_of(summary), ["axis", "label"], columns, rows)


def _remarks(findings: AxisFindings) -> Iterator[str]:
    """Yield sentences on axes and labels without an effect in a table, with the reason."""
    for effect in findings.effects:
        if effect.together:
            others = ", ".join(effect.together)
            yield f"{effect.axis} changes together with {others}: their effects cannot be told apart."
        if not effect.compared:
            yield f"{effect.axis} is not shown, since no two finished cells differ in it alone."
            continue
        names = []
        for label in effect.labels:
            if not label.pairs:
                names.append(label.label)
        if names:
            yield (
                f"{effect.axis}: {', '.join(names)} not shown, since no finished cell differs from one with "
                f"{effect.reference} in it alone."
            )
    yield from _notes_on_seeds_and_degenerate_cells(findings.summary)


def _notes_on_seeds_and_degenerate_cells(summary: Summary) -> Iterator[str]:
    seeds = set()
    for row in summary.rows:
        if row.status == "finished" and row.cells[-1].seeds:
            seeds.add(frozenset(row.cells[-1].seeds))
    if len(seeds) > 1:
        yield (
            "cells have different seeds: differences are "
            "over the seeds that both cells of a pair have, intervals and marks over the seeds that the cells "
            "of all pairs have."
        )
    if summary.degenerate_rows:
        names = "; ".join(summary.degenerate_rows)
        yield f"left out, since the number is degenerate: {names}."


def labels_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Group labels by their reasons: from label -> reason, return reason -> its labels."""
    labels: dict[str, list[str]] = {}
    for label, reason in reasons.items():
        labels.setdefault(reason.rstrip("."), []).append(label)
    return labels
