"""Keys of `[study]` that say how the results of a study are compared and shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sentbed_report.study.deciding_score import Decide
from sentbed_report.study.published_number_config import Published, Reference


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StudySettings:
    """Keys of `[study]` that say how results are compared and shown.

    The recipe's table, `study.json` and the data of a study have these fields in common.
    """

    expected: Mapping[str, Published] = attrs.field(factory=dict)
    """Name of a table or figure of a paper -> its published numbers: `cells` (cell -> score -> number), and
    optionally `tolerance`, `source`, `hardware`, `note` and `contradicted`."""
    references: Mapping[str, Reference] = attrs.field(factory=dict)
    """Name of another system -> where its numbers come from: published `scores` (key of a score -> number) with
    a `source`, or the `cell` of the study that computes them. A reference is a dashed line
    in the plots of scores, and a row of the tables."""
    ranks: tuple[str, ...] | None = None
    """Axes within which numbers are ranked. The rank of a number in its column is printed as a superscript, as
    in SentBench. It is the rank among the cells that have the same labels on these axes; with `[]`, among all
    cells. By default, there are no ranks."""
    colour: str = ""
    """Task whose score, by its first metric, colours the points in planes such as alignment over uniformity, as
    in Sentence-T5's figure 4. By default, the labels of an axis colour them."""
    cost: str = ""
    """Cost against which the report plots the other scores: a task of the evaluator `encoding-cost`, such as
    `passes`, `tokens`, `operations` or `seconds`. By default, it is the first cost that each evaluator measures,
    such as `processor-seconds` of `encoding-cost` on a processor, or `bytes-per-document` of `retrieval`."""
    decide: Decide | None = None
    """The score by which a cell is chosen. `{}` means all tasks on development data. The report names the best
    cell, its scores on test data, and the number of cells from which it was chosen."""


def settings_of(study: StudySettings) -> dict[str, Any]:
    """Return the settings of a table `[study]`, of a `study.json`, or of the data of a study, by name."""
    return {
        field.name: getattr(study, field.name) for field in attrs.fields(StudySettings)
    }
