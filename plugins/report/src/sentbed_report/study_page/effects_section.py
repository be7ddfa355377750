"""Section on the effects of a study's axes (factors): of each label (level)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sentbed_report.formatting import sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.difference import Judged
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.study.axis_effects import AxisFindings
from sentbed_report.study.summary_tables import title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_NOTES = (
    "Difference: from the reference, as the mean over all pairs of cells that differ in nothing else, and the "
    "number of these pairs; only seeds that all these cells have count.",
    "A single pair has the p-value of the table's own test of it. The p-values of means over several pairs are "
    "corrected over all labels of all axes (Holm).",
)


def effects_section(findings: Sequence[AxisFindings]) -> Section | None:
    """Return the section with the effects of single axes; None if `findings` is empty."""
    if not findings:
        return None

    notes = list(_NOTES)
    tables = []
    for findings_of_table in findings:
        summary = findings_of_table.summary
        for remark in _remarks(findings_of_table):
            notes.append(f"{title_of(summary)}: {remark}")
        if any(effect.labels for effect in findings_of_table.effects):
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
    for effect in findings.effects:
        compared = []
        for label in effect.labels:
            if label.judged.difference is not None:
                compared.append(label)
        if not compared:
            continue

        largest = max(compared, key=lambda label: abs(label.judged.difference or 0.0))
        test = largest.judged
        text = f"{effect.axis}: {largest.label} {signed(test.difference, digits)}"
        if test.interval is not None:
            low, high = test.interval
            text += f" ({signed(low, digits)} to {signed(high, digits)})"
            text += sign_of(test.corrected)
        text += f" against {effect.reference}"
        if _is_significant_only_alone(test):
            text += ", not significant after correction"
        yield text


def _is_significant_only_alone(test: Judged) -> bool:
    """Whether a difference is significant without the correction for several tests, and is not with it."""
    if test.p_value is None or test.significant:
        return False
    return test.p_value < SIGNIFICANT


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
    for effect in findings.effects:
        for label in effect.labels:
            difference = Estimate(
                value=label.judged.difference,
                interval=label.judged.interval,
                count=label.pairs,
                judged=label.judged,
            )
            rows.append((effect.axis, label.label, effect.reference, difference))
    return table_of(title_of(summary), ["axis", "label"], columns, rows)


def _remarks(findings: AxisFindings) -> Iterator[str]:
    """Yield sentences on axes and labels without an effect in a table, with the reason."""
    for effect in findings.effects:
        if effect.together:
            others = ", ".join(effect.together)
            yield f"{effect.axis} changes together with {others}: their effects cannot be told apart."
        if not effect.labels:
            yield f"{effect.axis} is not shown, since no two finished cells differ in it alone."
        elif effect.missing:
            yield (
                f"{effect.axis}: {', '.join(effect.missing)} not shown, since no finished cell differs from one "
                f"with {effect.reference} in it alone."
            )
    if findings.summary.degenerate_rows:
        names = "; ".join(findings.summary.degenerate_rows)
        yield f"left out, since the number is degenerate: {names}."


def labels_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Group labels by their reasons: from label -> reason, return reason -> its labels."""
    labels: dict[str, list[str]] = {}
    for label, reason in reasons.items():
        labels.setdefault(reason.rstrip("."), []).append(label)
    return labels
