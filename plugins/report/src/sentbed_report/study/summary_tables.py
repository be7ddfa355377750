"""`Summary`: a table of comparable scores of one evaluator, with one row per cell; see `summarise`."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from itertools import chain

import attrs

from sentbed_report.formatting import count
from sentbed_report.statistics.difference import Judged, listed_sources
from sentbed_report.study.axis_columns import axis_column
from sentbed_report.study.rank_groups import RankGroups, rank_groups
from sentbed_report.study.summary_row import Pair, RowKey, SummaryRow
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.html import to_html
from sentbed_report.tables.table import Header, Row, Table
from sentbed_report.tables.terminal import to_text


@attrs.frozen
class ReferenceRow:
    """Row with the numbers of another system, with which the cells are compared; see `Reference`."""

    name: str
    source: str
    """Where the numbers are published; empty if they are numbers of a cell."""
    cell: str
    """Cell of the study whose numbers these are; empty for published numbers."""
    values: tuple[float | None, ...]
    """One number per column; None in columns for which the system has no comparable number."""


@attrs.frozen(repr=False)
class Summary:
    """Table of comparable scores of one evaluator under one protocol id."""

    study: str
    evaluator: str
    protocol: str
    """Protocol id of all scores; empty if they have none."""
    metric: str
    """Metric, if this is a table for a further metric: the first metric of each task is then in an earlier
    table. Empty in the first table."""
    note: str
    """Short description: evaluator, metrics and protocols, then `apart`."""
    apart: str
    """Differences from other tables of the same evaluator and protocol id; empty if there are none."""
    columns: tuple[Column, ...]
    """Tasks in the study's order, by default as in papers; an average comes last."""
    rows: tuple[SummaryRow, ...]
    baseline: str | None
    """Name of the cell with which others are compared."""
    references: tuple[ReferenceRow, ...] = ()
    """Rows of other systems that have a number in any column, in the recipe's order."""
    ranked_within: tuple[str, ...] | None = None
    """Axes that divide the rows into groups, within which numbers are ranked; see `StudyData.ranks`."""
    development: bool = False
    """Whether the scores are on development data, from which nothing follows for test data."""
    prompts: tuple[str, ...] = ()
    """Labels of the prompts over which each number is a mean; empty in a study without `prompts`."""
    all_pairs: bool = True
    """Whether the rows are compared with each other in the last column, and not with the baseline alone."""
    tests: dict[Pair, Judged] = attrs.field(factory=dict, eq=False)
    """Pair of rows -> test of their difference in the last column."""

    @cached_property
    def _rows_by_key(self) -> dict[RowKey, SummaryRow]:
        return {row.key: row for row in self.rows}

    def row(self, key: RowKey) -> SummaryRow:
        """Return the row of a cell and encoder."""
        return self._rows_by_key[key]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds under which any row has a score, in increasing order."""
        seeds: set[int] = set()
        for row in self.rows:
            seeds.update(row.scored)
        return tuple(sorted(seeds))

    @cached_property
    def groups(self) -> RankGroups | None:
        """Comparison of all rows in the last column.

        None if rows are compared with the baseline alone, if neither higher nor lower scores are better in the
        column, if the table is for a further metric, or if fewer than two rows have finished.
        """
        if self.metric or not self.all_pairs or not self.columns[-1].ranked:
            return None
        return rank_groups(self.rows, self.columns[-1], self.tests)

    @property
    def headings(self) -> tuple[str, ...]:
        """Headings of the columns."""
        return tuple(column.heading for column in self.columns)

    @property
    def digits(self) -> int:
        """Number of decimals of scores; in a table of costs, of the last column."""
        for column in self.columns:
            if not column.cost:
                return column.digits
        return self.columns[-1].digits

    @property
    def names(self) -> tuple[str, ...]:
        """Evaluator, and protocol id if it is not the same name."""
        if self.protocol in ("", self.evaluator):
            return (self.evaluator,)
        return self.evaluator, self.protocol

    @property
    def over(self) -> str:
        """Sentence on the seeds and prompts over which the numbers are means."""
        most = max([len(row.scored) for row in self.rows], default=0)
        if most == 0:
            return "Nothing has finished."
        if self.prompts:
            prompts = count(len(self.prompts), "prompt")
            return f"Mean over {prompts} and {count(most, 'seed')}."
        seeds = ", ".join(map(str, self.seeds))
        if most == 1:
            return f"One run per row (seed {seeds})."
        return f"Mean and standard deviation over {count(most, 'seed')} ({seeds})."

    @property
    def test(self) -> str:
        """Sentence on the significance test; empty without comparisons."""
        tests = []
        for row in self.rows:
            for cell in row.cells:
                if cell.judged is not None:
                    tests.append(cell.judged)
        sources = listed_sources(tests)
        if not sources:
            return ""

        return (
            f"Tests against {self.baseline}: paired, two-sided, Student's t over "
            f"{sources}, with Holm's correction over the cells in each column."
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the table, such as over what its numbers are means, and how they were tested."""
        notes = [self.over]
        if self.ranked_within is not None:
            within = "".join(
                f", among rows of the same {axis}" for axis in self.ranked_within
            )
            notes.append(f"Superscripts: the rank in a column{within}.")
        if self.test:
            notes.append(self.test)

        rows_of_reasons: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            for cell in row.cells:
                if cell.judged is None or not cell.seeds:
                    continue
                reason = cell.judged.reason
                if reason and row.name not in rows_of_reasons[reason]:
                    rows_of_reasons[reason].append(row.name)

        for reason, names in rows_of_reasons.items():
            rows = "; ".join(names)
            notes.append(f"Not tested ({rows}): {reason}.")
        return tuple(notes)

    @property
    def title(self) -> str:
        """Study, evaluator, metrics and protocols."""
        rest = self.note.removeprefix(f"{self.evaluator}; ")
        return f"{self.study}: {self.evaluator} ({rest})"

    @property
    def table(self) -> Table:
        """The table, independent of the format: HTML, Markdown, LaTeX, CSV and text are made from it."""
        axes = tuple(
            dict.fromkeys(chain.from_iterable(row.labels for row in self.rows))
        )
        has_several_encoders = any(row.name != row.cell for row in self.rows)
        headers = [
            Header("cell", shown=not axes),
            Header("encoder", shown=has_several_encoders),
            Header("status", shown=False),
        ]
        for axis in axes:
            headers.append(Header(axis_column(axis)))

        rows = []
        for row in self.rows:
            rows.append(self._row(row, axes))
        for reference in self.references:
            if not reference.cell:
                rows.append(self._reference(reference, axes))

        return Table(
            self.title,
            tuple(headers),
            self.columns,
            tuple(rows),
            self.notes,
            study=self.study,
        )

    def __repr__(self) -> str:
        sizes = f"{count(len(self.rows), 'row')}, {count(len(self.columns), 'column')}"
        return f"<table {self.note}: {sizes}>"

    def __str__(self) -> str:
        return to_text(self.table)

    def _repr_html_(self) -> str:
        return to_html(self.table)

    def _row(self, row: SummaryRow, axes: tuple[str, ...]) -> Row:
        tags = []
        if row.cell == self.baseline:
            tags.append("baseline")
        if row.remark:
            tags.append(row.remark)
        labels = map(row.labels.__getitem__, axes)
        headers = (row.cell, row.encoder, row.status, *labels)
        return Row(headers, row.cells, tuple(tags), row.cell)

    def _reference(self, reference: ReferenceRow, axes: tuple[str, ...]) -> Row:
        """Return a row of published numbers, with the system's name in the first column that is shown."""
        labels = [""] * len(axes)
        if labels:
            labels[0] = reference.name
        cells = tuple(Estimate(value=value) for value in reference.values)
        tags = (reference.source or "published",)
        status = "published"
        if reference.source:
            status += f": {reference.source.removeprefix('published, ')}"
        return Row(
            (reference.name, "", status, *labels), cells, tags, is_reference=True
        )


def title_of(summary: Summary) -> str:
    """Return a title for plots of a table's last column."""
    parts = list(summary.names)
    if summary.apart:
        parts.append(summary.apart)
    title = f"{', '.join(parts)}: {summary.headings[-1]}"
    metric = summary.columns[-1].unnamed_metric
    if not metric:
        return title
    return f"{title} ({metric})"
