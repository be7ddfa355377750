"""Sections on the effects of a study's axes (factors): of each label (level), and of two axes together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations

import attrs

from sentbed_report.figures.study_figures import KINDS, plots_of
from sentbed_report.formatting import sign_of, signed
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.significance import Judged
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.axis_tests import AxisFindings
from sentbed_report.study.main_effects import Grid, interaction
from sentbed_report.study.study_data import StudyData, sources_of_tests
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Cell, Table

_NOTES = (
    "Mean: over matched cells, which have the combinations of everything else that all compared labels have; "
    "with their number.",
    "Difference: from the reference, over all pairs of cells that differ in nothing else, with the standard "
    "deviation over the pairs and their number. If there are more pairs than matched cells, it is not the "
    "difference of the means. The deviation shows how much the effect differs between combinations, but not "
    "how much it depends on seeds and test items.",
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
    summaries = []
    for findings_of_table in findings:
        summary = findings_of_table.summary
        summaries.append(summary)
        for remark in _remarks(findings_of_table):
            notes.append(f"{title_of(summary)}: {remark}")
        if findings_of_table.compared:
            tables.append(_effect_table(findings_of_table))

    return Section(
        "Effects",
        effects_line(findings[0]),
        tables=tables,
        notes=notes,
        plots=plots_of(KINDS["effects"], data, summaries),
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
            if label.difference is not None and label.label != effect.reference:
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
        others = _interacting(effect.axis, findings.interactions)
        if others:
            text += f", which depends on {' and '.join(others)}"
        yield text


def _is_significant_only_alone(test: Judged) -> bool:
    """Whether a difference is significant without the correction for several tests, and is not with it."""
    if test.interval is None or sign_of(test.corrected):
        return False
    low, high = test.interval
    return low > 0 or high < 0


def _interacting(
    axis: str, interactions: Mapping[tuple[str, str], Judged]
) -> list[str]:
    """Return the axes with which an axis interacts significantly, each with the significance mark."""
    others = []
    for (first, second), test in interactions.items():
        sign = sign_of(test.corrected)
        if sign and axis == first:
            others.append(f"{second}{sign}")
        elif sign and axis == second:
            others.append(f"{first}{sign}")
    return others


def _effect_table(findings: AxisFindings) -> Table:
    """Return a table with one row per label: its mean, and the difference from the reference label."""
    summary = findings.summary
    direction = summary.columns[-1].direction
    columns = (
        Column("mean", direction=direction, digits=summary.digits),
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
            mean = Estimate(value=label.mean, count=label.contexts)
            difference: Cell = "reference"
            if label.label != effect.reference:
                test = findings.tests.get((effect.axis, label.label))
                interval = None if test is None else test.interval
                difference = Estimate(
                    value=label.difference,
                    std=label.std,
                    interval=interval,
                    count=label.pairs,
                    judged=test,
                )
            rows.append((effect.axis, label.label, mean, difference))
    return table_of(title_of(summary), ["axis", "label"], columns, rows)


def _remarks(findings: AxisFindings) -> Iterator[str]:
    """Yield sentences on axes and labels without an effect in a table, with the reason."""
    for effect in findings.effects:
        if effect.together:
            others = ", ".join(effect.together)
            yield f"{effect.axis} changes together with {others}: their effects cannot be told apart."
        if not effect.compared:
            reasons = "; ".join(map(": ".join, effect.left.items()))
            yield f"{effect.axis} is not shown, since no two of its labels can be compared: {reasons}."
            continue
        for reason, labels in labels_by_reason(effect.left).items():
            yield f"{effect.axis}: no mean of {', '.join(labels)}: {reason}."
    yield from _notes_on_seeds_and_degenerate_cells(findings.summary)


def _notes_on_seeds_and_degenerate_cells(summary: Summary) -> Iterator[str]:
    seeds = set()
    for row in summary.rows:
        if row.status == "finished" and row.cells[-1].seeds:
            seeds.add(frozenset(row.cells[-1].seeds))
    if len(seeds) > 1:
        yield (
            "cells have different seeds: means are over the seeds that all matched cells have, differences "
            "over the seeds that both cells of a pair have, intervals and marks over the seeds that the cells "
            "of all pairs have."
        )
    if summary.degenerate_rows:
        names = "; ".join(summary.degenerate_rows)
        yield f"left out of the means, since the number is degenerate: {names}."


def labels_by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Group labels by their reasons: from label -> reason, return reason -> its labels."""
    labels: dict[str, list[str]] = {}
    for label, reason in reasons.items():
        labels.setdefault(reason.rstrip("."), []).append(label)
    return labels


def interactions_section(
    data: StudyData, findings: Sequence[AxisFindings]
) -> Section | None:
    """Return the section on pairs of axes; None if no pair of axes has means."""
    tables = []
    interacting = []
    for findings_of_table in findings:
        summary = findings_of_table.summary
        for pair, test in findings_of_table.interactions.items():
            sign = sign_of(test.corrected)
            if sign:
                interacting.append(f"{' and '.join(pair)}{sign} in {title_of(summary)}")
        for grid in _grids(data, findings_of_table):
            tables.append(_grid_table(grid, summary))
    if not tables:
        return None

    if not any(findings_of_table.interactions for findings_of_table in findings):
        return Section("Two axes", "interactions are not tested", tables=tables)
    line = "no two axes are shown to interact"
    if interacting:
        line = f"depend on each other: {'; '.join(interacting)}"
    note = (
        "Whether two axes interact: the clearest difference of differences against their references, over "
        f"{sources_of_tests(data)}, corrected over all of them (Holm)."
    )
    return Section("Two axes", line, tables=tables, notes=[note])


def _grids(data: StudyData, findings: AxisFindings) -> Iterator[Grid]:
    """Yield the grid of means of each pair of axes, except pairs that change together or have no known mean."""
    changes_with = {effect.axis: effect.together for effect in findings.effects}
    axes = [axis for axis in data.axes if len(axis.labels) > 1]
    for first, second in combinations(axes, 2):
        if second.name in changes_with[first.name]:
            continue
        # The axis with more labels gets the rows, since a page is higher than wide.
        rows, columns = first, second
        if len(second.labels) > len(first.labels):
            rows, columns = second, first
        grid = interaction(data, findings.summary, rows.name, columns.name)
        if set(chain.from_iterable(grid.means)) != {None}:
            yield grid


def _grid_table(grid: Grid, summary: Summary) -> Table:
    """Return a heat map of the means of two axes."""
    last = summary.columns[-1]
    template = Column(
        "",
        last.metric,
        direction=last.direction,
        group=grid.columns.name,
        digits=summary.digits,
    )
    columns = []
    for label in grid.columns.labels:
        columns.append(attrs.evolve(template, task=label, heading=label))
    rows = []
    for label, means in zip(grid.rows.labels, grid.means, strict=True):
        rows.append((label, *means))

    cells = "one cell" if grid.contexts == 1 else f"{grid.contexts:,} matched cells"
    notes = [
        f"Each mean is over {cells}, with the same combinations of everything else."
    ]
    reasons = {", ".join(pair): reason for pair, reason in grid.left.items()}
    for reason, pairs in labels_by_reason(reasons).items():
        notes.append(f"Not shown: {'; '.join(pairs)}: {reason}.")
    for note in _notes_on_seeds_and_degenerate_cells(summary):
        notes.append(note[0].upper() + note[1:])

    title = f"{title_of(summary)}: {grid.rows.name} by {grid.columns.name}"
    table = table_of(title, [axis_column(grid.rows.name)], columns, rows, notes)
    return attrs.evolve(table, is_heat_map=True)
