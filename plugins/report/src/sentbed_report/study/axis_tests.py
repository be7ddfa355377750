"""Significance tests of a study's axes.

An axis is a factor of the study, and its labels are the levels of the factor. The tests are of the effect of each
label and of the interactions of two axes, on the scores in the last column of a table of results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import attrs

from sentbed_report.statistics.significance import Judged, corrected
from sentbed_report.study.main_effects import (
    AxisEffect,
    Context,
    Labels,
    cells_by_labels,
    main_effects,
    together_with,
)
from sentbed_report.study.study_data import AxisInfo, StudyData
from sentbed_report.study.summary_row import RowKey, SummaryRow
from sentbed_report.study.summary_tables import Summary

Weights: TypeAlias = dict[RowKey, float]
"""Row of a table -> its weight in a contrast."""

MOST_CONTRASTS = 500
"""Maximum number of interaction contrasts of one table; if it has more, no interaction is tested. Only axes
with dozens of labels have more."""


@attrs.frozen(eq=False)
class AxisFindings:
    """Effects of a study's axes on the last column of a table, with their tests."""

    summary: Summary
    effects: tuple[AxisEffect, ...]
    """Effect of each axis with several labels."""
    tests: Mapping[tuple[str, str], Judged]
    """(Axis, label) -> test of the label's difference from the reference label of the axis."""
    interactions: Mapping[tuple[str, str], Judged]
    """(Axis, axis) -> test of the clearest interaction of the two axes."""

    @property
    def compared(self) -> list[AxisEffect]:
        """Effects of the axes whose labels can be compared."""
        return [effect for effect in self.effects if effect.compared]


def axis_findings(data: StudyData, summaries: Sequence[Summary]) -> list[AxisFindings]:
    """Return the effects of the axes in each table.

    Two kinds of tables are left out: those without a finished cell, and those in whose last column neither
    higher nor lower scores are better.
    """
    findings = []
    for summary in summaries:
        has_finished = any(row.status == "finished" for row in summary.rows)
        if not has_finished or not summary.columns[-1].ranked:
            continue

        effects = main_effects(data, summary)
        references = {}
        for effect in effects:
            if effect.compared:
                references[effect.axis] = effect.reference
        if effects:
            tests = effect_tests(data, summary, references)
            interactions = interaction_tests(data, summary, references)
            findings.append(AxisFindings(summary, effects, tests, interactions))
    return findings


def effect_tests(
    data: StudyData,
    summary: Summary,
    references: Mapping[str, str],
) -> dict[tuple[str, str], Judged]:
    """Return (axis, label) -> test of the label against the reference label of its axis.

    `references` maps each axis that is tested to its reference label. The tested difference is the mean over
    pairs of cells that differ only in this axis. Holm's correction is over the p-values of all labels of all
    axes.
    """
    scores = summary.scores
    if scores is None:
        return {}
    tests = {}
    for axis in data.axes:
        if axis.name not in references:
            continue
        cells = cells_by_labels(data, summary, (axis,))
        reference = (references[axis.name],)
        for labels in cells:
            if labels == reference:
                continue
            corners = ((cells[labels], 1), (cells[reference], -1))
            weights = _contrast_weights(corners)
            if weights:
                tests[axis.name, labels[0]] = scores.contrast(weights)
    return corrected(tests)


def interaction_tests(
    data: StudyData,
    summary: Summary,
    references: Mapping[str, str],
) -> dict[tuple[str, str], Judged]:
    """Return (axis, axis) -> test of the clearest interaction of the two axes.

    A contrast belongs to one label of each axis. It is the effect of the first axis's label under the second
    axis's label, minus the effect of the first axis's label under the second axis's reference label. Holm's
    correction is over the p-values of all contrasts of all axes. Of the contrasts of two axes, the clearest is
    the one with the smallest p-value. Nothing is tested if there are more than `MOST_CONTRASTS` contrasts.
    """
    scores = summary.scores
    if scores is None:
        return {}
    axes = [axis for axis in data.axes if axis.name in references]
    contrasts: dict[tuple[str, ...], Weights] = {}
    for first, second in combinations(axes, 2):
        # Axes whose labels always vary together have no interaction.
        if second.name in together_with(data, first):
            continue
        interactions = _interaction_contrasts(
            data, summary, (first, second), references
        )
        for labels, weights in interactions:
            contrasts[first.name, second.name, *labels] = weights
    if len(contrasts) > MOST_CONTRASTS:
        return {}

    tests = {}
    for names_and_labels, weights in contrasts.items():
        tests[names_and_labels] = scores.contrast(weights)
    tests = corrected(tests)
    clearest: dict[tuple[str, str], Judged] = {}
    for (first_axis, second_axis, *_), test in tests.items():
        earlier = clearest.get((first_axis, second_axis))
        if earlier is None or _p_value(test) < _p_value(earlier):
            clearest[first_axis, second_axis] = test
    return clearest


def _p_value(test: Judged) -> float:
    if test.corrected is None:
        return 1.0
    return test.corrected


def _interaction_contrasts(
    data: StudyData,
    summary: Summary,
    axes: tuple[AxisInfo, AxisInfo],
    references: Mapping[str, str],
) -> Iterator[tuple[Labels, Weights]]:
    """Yield each pair of labels of the two axes, and the contrast of the pair.

    Pairs with a reference label are left out, since each contrast compares with the references.
    """
    cells = cells_by_labels(data, summary, axes)
    first_reference = references[axes[0].name]
    second_reference = references[axes[1].name]
    for first, second in cells:
        if first == first_reference or second == second_reference:
            continue
        corners = (
            (cells[first, second], 1),
            (cells[first_reference, second], -1),
            (cells[first, second_reference], -1),
            (cells[first_reference, second_reference], 1),
        )
        weights = _contrast_weights(corners)
        if weights:
            yield (first, second), weights


def _contrast_weights(
    corners: Sequence[tuple[Mapping[Context, SummaryRow], int]],
) -> Weights:
    """Return the weight of each row in a contrast.

    A corner is one combination of labels on the examined axes: context -> row of the cell with these labels,
    and the sign of these rows in the contrast. The context is the cell's labels on all other axes. The weight
    of a row is the sign of its corner, divided by the number of contexts that all corners have. Rows of other
    contexts have no weight.
    """
    contexts = []
    for context in corners[0][0]:
        if all(context in rows for rows, _ in corners):
            contexts.append(context)

    weights: Weights = {}
    for context in contexts:
        for rows, sign in corners:
            weights[rows[context].key] = sign / len(contexts)
    return weights
