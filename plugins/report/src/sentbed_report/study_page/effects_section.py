"""What each axis (factor) of a study does: effects of its labels (levels), and means of pairs of axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

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
    "Mean: over matched cells, the combinations of everything else that all compared labels have, and their "
    "number.",
    "Difference: from the reference, over all pairs of cells that differ in nothing else, with its standard "
    "deviation over them and their number; where there are more pairs than matched cells, it is not that of "
    "the means. The deviation says how much the effect differs from one combination to another, and nothing "
    "of seeds and test items.",
    "Interval and mark of a difference are over {sources}, for these combinations; p-values are "
    "corrected over all labels of all axes (Holm).",
)


def effects_section(
    data: StudyData, findings: Sequence[AxisFindings]
) -> Section | None:
    """Return the section of the effects of single axes; None where there are none."""
    if not findings:
        return None
    tables, notes = [], []
    for of_table in findings:
        title = title_of(of_table.summary)
        notes += [f"{title}: {note}" for note in _remarks(of_table)]
        if of_table.compared:
            tables.append(_effect_table(of_table))
    summaries = [of_table.summary for of_table in findings]
    return Section(
        "Effects",
        effects_line(findings[0]),
        tables=tables,
        notes=[
            *(note.format(sources=sources_of_tests(data)) for note in _NOTES),
            *notes,
        ],
        plots=plots_of(KINDS["effects"], data, summaries),
    )


def effects_line(findings: AxisFindings) -> str:
    """Return the largest effect of each axis on a table, with its interval and mark."""
    return "; ".join(_axis_lines(findings))


def _axis_lines(findings: AxisFindings) -> Iterator[str]:
    digits = findings.summary.digits
    for effect in findings.compared:
        differences = {
            label.label: label.difference for label in effect.labels if label.pairs
        }
        differences.pop(effect.reference, None)
        if not differences:
            continue
        label = max(differences, key=lambda label: abs(differences[label] or 0.0))
        text = f"{effect.axis}: {label} {signed(differences[label], digits)}"
        test = findings.tests.get((effect.axis, label))
        if test is not None and test.interval is not None:
            low, high = test.interval
            text += f" ({signed(low, digits)} to {signed(high, digits)})"
            text += sign_of(test.corrected)
        text += f" against {effect.reference}"
        if test is not None and _is_lost_to_correction(test):
            text += ", not significant among all labels"
        others = _interacting(effect.axis, findings.interactions)
        if others:
            text += f", which depends on {' and '.join(others)}"
        yield text


def _is_lost_to_correction(test: Judged) -> bool:
    """Whether an interval leaves 0 out although the corrected test finds no difference."""
    if test.interval is None or sign_of(test.corrected):
        return False
    low, high = test.interval
    return low > 0 or high < 0


def _interacting(
    axis: str, interactions: Mapping[tuple[str, str], Judged]
) -> list[str]:
    """Return the axes on which the effect of an axis was shown to depend, with their marks."""
    others = []
    for axes, test in interactions.items():
        sign = sign_of(test.corrected)
        if axis in axes and sign:
            others += [f"{other}{sign}" for other in axes if other != axis]
    return others


def _effect_table(findings: AxisFindings) -> Table:
    """Return a table with one row per label, with its mean and its difference from the reference."""
    summary = findings.summary
    direction = summary.columns[-1].direction
    columns = (
        Column("mean", direction=direction, digits=summary.digits),
        Column("difference", direction=direction, form="signed", digits=summary.digits),
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
    for effect in findings.effects:
        if effect.together:
            others = ", ".join(effect.together)
            yield f"{effect.axis} changes together with {others}: one cannot be told from the other."
        if not effect.compared:
            listed = "; ".join(
                f"{label}: {reason}" for label, reason in effect.left.items()
            )
            yield f"{effect.axis} is not shown, since no two of its labels can be compared: {listed}."
            continue
        for reason, labels in by_reason(effect.left).items():
            yield f"{effect.axis}: no mean of {', '.join(labels)}: {reason}."
    yield from _seeds_and_degenerate(findings.summary)


def _seeds_and_degenerate(summary: Summary) -> Iterator[str]:
    seeds = set()
    for row in summary.rows:
        if row.status == "finished" and row.cells[-1].seeds:
            seeds.add(frozenset(row.cells[-1].seeds))
    if len(seeds) > 1:
        yield (
            "cells have different seeds: means are over those that all matched cells have, differences over "
            "those that both cells of a pair have."
        )
    degenerate = [row.name for row in summary.rows if row.cells[-1].degenerate]
    if degenerate:
        yield f"left out of the means, since the number is degenerate: {'; '.join(degenerate)}."


def by_reason(left: Mapping[str, str]) -> dict[str, list[str]]:
    """Return each reason with what it holds for."""
    reasons: dict[str, list[str]] = {}
    for name, reason in left.items():
        reasons.setdefault(reason.rstrip("."), []).append(name)
    return reasons


def interactions_section(
    data: StudyData, findings: Sequence[AxisFindings]
) -> Section | None:
    """Return the section of two axes at a time; None where there are no two."""
    tables = []
    clear = []
    for of_table in findings:
        summary = of_table.summary
        for pair, test in of_table.interactions.items():
            if sign_of(test.corrected):
                clear.append(
                    f"{' and '.join(pair)}{sign_of(test.corrected)} in {title_of(summary)}"
                )
        tables += [_grid_table(grid, summary) for grid in _grids(data, of_table)]
    if not tables:
        return None
    line = (
        f"depend on each other: {'; '.join(clear)}"
        if clear
        else "no two axes are shown to interact"
    )
    note = (
        "Whether two axes interact: the clearest difference of differences against their references, over "
        "seeds and items, corrected over all of them (Holm)."
    )
    return Section("Two axes", line, tables=tables, notes=[note])


def _grids(data: StudyData, findings: AxisFindings) -> Iterator[Grid]:
    """Yield the means of each two axes that have any."""
    axes = [axis for axis in data.axes if len(axis.labels) > 1]
    together = {
        (effect.axis, other) for effect in findings.effects for other in effect.together
    }
    for first, second in combinations(axes, 2):
        if (first.name, second.name) in together:
            continue
        # The longer axis goes down: a page has more height than width.
        rows, columns = first, second
        if len(second.labels) > len(first.labels):
            rows, columns = second, first
        grid = interaction(data, findings.summary, rows.name, columns.name)
        if any(mean is not None for line in grid.means for mean in line):
            yield grid


def _grid_table(grid: Grid, summary: Summary) -> Table:
    last = summary.columns[-1]
    alike = Column(
        "",
        last.metric,
        direction=last.direction,
        group=grid.columns.name,
        digits=summary.digits,
    )
    columns = [
        attrs.evolve(alike, task=label, heading=label) for label in grid.columns.labels
    ]
    rows = [
        (label, *means)
        for label, means in zip(grid.rows.labels, grid.means, strict=True)
    ]
    cells = "one cell" if grid.contexts == 1 else f"{grid.contexts:,} matched cells"
    notes = [
        f"Mean of {cells}, of the same combinations of everything else everywhere."
    ]
    left = {f"{row}, {column}": reason for (row, column), reason in grid.left.items()}
    notes += [
        f"Not shown: {'; '.join(pairs)}: {reason}."
        for reason, pairs in by_reason(left).items()
    ]
    notes += [note[0].upper() + note[1:] for note in _seeds_and_degenerate(summary)]
    title = f"{title_of(summary)}: {grid.rows.name} by {grid.columns.name}"
    table = table_of(title, [axis_column(grid.rows.name)], columns, rows, notes)
    return attrs.evolve(table, is_heat_map=True)
