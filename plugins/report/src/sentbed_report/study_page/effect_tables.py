"""Effects of axes for the page and Markdown: one factor, two factors, and all tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise

import attrs
from sentbed.helpers import score_digits

from sentbed_report.formatting import WINNER, number, share_of, signed
from sentbed_report.study.build_summary_tables import summarise
from sentbed_report.study.found_demonstrations import found_demonstrations
from sentbed_report.study.main_effects import AxisEffect, Grid, interaction, main_effects
from sentbed_report.study.published_number_comparison import Number, published_numbers
from sentbed_report.study.score_against_cost import unknown_cost
from sentbed_report.study.study_data import CellInfo, StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.result_tables import ResultTable, result_tables
from sentbed_report.study_page.score_cost_tables import CostTable, cost_tables
from sentbed_report.study_page.sections import Section
from sentbed_report.study_page.study_sections import sections_of

EFFECTS = (
    "Mean: over matched cells, the combinations of everything else that all compared labels have. "
    "Difference: from the reference, over all pairs of cells that differ in nothing else, with its standard "
    "deviation over them; where there are more pairs than matched cells, it is not that of the means. This "
    "deviation says how much the effect differs from one combination to another, and nothing of seeds and "
    "test items: a small one does not make a difference significant."
)

_HEAT = (6, 62)
"""Per cent of the colour at both ends of a heat map: numbers in it stay readable."""


@attrs.frozen
class EffectRow:
    """One label of an axis."""

    label: str
    mean: str
    cells: str
    """Number of cells of the mean."""
    difference: str
    """`reference` for the label that the others are compared with."""
    pairs: str
    """Number of pairs of the difference; empty for the reference."""


@attrs.frozen
class EffectTable:
    """Effects of the axes on one column."""

    title: str
    summary: Summary
    """The table that has the column, its last."""
    axes: tuple[tuple[str, tuple[EffectRow, ...]], ...]
    """Axes, with one row per label."""
    remarks: tuple[str, ...]


@attrs.frozen
class HeatCell:
    """The mean of one label of each of two axes."""

    text: str
    heat: int | None
    """Per cent of the colour; None where there is no number."""


@attrs.frozen
class HeatMap:
    """Two axes against each other."""

    title: str
    row_axis: str
    column_axis: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    shade: str
    """What the shades of the page mean."""
    remark: str
    """What the means are over, and what is left out."""


@attrs.frozen
class DemonstrationTable:
    """The best demonstration of each searched cell."""

    headings: tuple[str, ...]
    """Those of text, `cell`, `best demonstration` and `word`, then those of numbers."""
    rows: tuple[tuple[CellInfo, tuple[str, ...]], ...]
    remark: str


@attrs.frozen
class Views:
    """Printed content of a report, without plots."""

    summaries: tuple[Summary, ...]
    tables: tuple[ResultTable, ...]
    """Tables, without the remarks common to all."""
    remarks: tuple[str, ...]
    """Remarks common to all tables."""
    effects: tuple[EffectTable, ...]
    heat_maps: tuple[HeatMap, ...]
    published: tuple[Number, ...]
    demonstrations: DemonstrationTable | None = None
    """What searches have found, if there were any."""
    costs: tuple[CostTable, ...] = ()
    """Scores against costs, if there were any."""
    cost_remark: str = ""
    """Why there are none although the study asks for a cost."""
    sections: tuple[Section, ...] = ()
    """What the study decided, how sure that is and what it took."""

    @property
    def marked(self) -> bool:
        """Whether a number has a sign of significance."""
        return any(entry.sign for table in self.tables for line in table.rows for entry in line.entries)


def views_of(data: StudyData, summaries: Sequence[Summary] | None = None) -> Views:
    """Return the printed content of a study's report; `summaries` default to the study's own."""
    found = tuple(summarise(data) if summaries is None else summaries)
    judged = [summary for summary in found if summary.columns[-1].ranked]
    tables = result_tables(found, data)
    shared = [r for r in (tables[0].remarks if tables else ()) if all(r in t.remarks for t in tables)]
    return Views(
        found,
        tuple(attrs.evolve(t, remarks=tuple(r for r in t.remarks if r not in shared)) for t in tables),
        tuple(shared),
        tuple(table for one in judged if (table := _effects(data, one)) is not None),
        tuple(heat for one in judged for heat in _heat_maps(data, one)),
        published_numbers(data, found),
        _demonstrations(data, judged),
        cost_tables(data, found),
        unknown_cost(found, data.cost),
        sections_of(data, found),
    )


def _demonstrations(data: StudyData, judged: Sequence[Summary]) -> DemonstrationTable | None:
    rows = found_demonstrations(data, judged)
    if not rows:
        return None
    several = any(one.cell is other.cell for one, other in pairwise(rows))
    having = {id(gain.summary) for row in rows for gain in row.gains}
    gained = [summary for summary in judged if id(summary) in having]
    places = score_digits(score for row in rows for score in row.found.scores)
    lines = []
    for row in rows:
        found, shares = row.found, row.found.shares
        share = (
            ("–", "–")
            if shares is None
            else (share_of(shares.helped, shares.total), share_of(shares.harmed, shares.total))
        )
        gains = {id(gain.summary): gain.difference for gain in row.gains}
        texts = (
            f"{row.cell.name}, seed {row.seed}" if several else row.cell.name,
            found.sentence,
            found.word,
            number(found.score, places),
            signed(found.improvement, places),
            *share,
            *(signed(gains.get(id(summary)), summary.digits) for summary in gained),
        )
        lines.append((row.cell, texts))
    evaluators = ", ".join(dict.fromkeys(row.found.evaluator for row in rows))
    remark = (
        "Improvement, help and harm are against the prompt without a demonstration, on the development "
        f"data of the search ({evaluators})."
    )
    if gained:
        remark += " Columns of evaluations: the mean of the cell less that of the cell without a search."
    headings = ("cell", *WINNER[:2], "score", *WINNER[2:], *map(title_of, gained))
    return DemonstrationTable(headings, tuple(lines), remark)


def _effects(data: StudyData, summary: Summary) -> EffectTable | None:
    found = main_effects(data, summary)
    if not any(row.status == "finished" for row in summary.rows) or not found:
        return None
    axes = ((effect.axis, tuple(_rows(effect, summary.digits))) for effect in found if effect.compared)
    remarks = [remark for effect in found for remark in _remarks(effect)]
    more = ", differences over those that both cells of a pair have, points of cells over all of their own"
    remarks += (*_other_seeds(summary, more), *_degenerate(summary))
    return EffectTable(title_of(summary), summary, tuple(axes), tuple(remarks))


def _other_seeds(summary: Summary, more: str = "") -> Iterator[str]:
    """Yield what seeds means are over, and `more`, where not all cells have the same."""
    finished = [row.cells[-1].values for row in summary.rows if row.status == "finished"]
    if len({frozenset(values) for values in finished if values}) > 1:
        yield f"Cells have different seeds: means are over those that all matched cells have{more}."


def _degenerate(summary: Summary) -> Iterator[str]:
    if found := [row.name for row in summary.rows if row.cells[-1].degenerate]:
        yield f"Left out of the means, since the number is degenerate: {'; '.join(found)}."


def _remarks(effect: AxisEffect) -> Iterator[str]:
    if effect.together:
        others = ", ".join(effect.together)
        yield f"{effect.axis} changes together with {others}: one cannot be told from the other."
    if not effect.compared:
        listed = "; ".join(f"{label}: {why}" for label, why in effect.left.items())
        yield f"{effect.axis} is not shown, since no two of its labels can be compared: {listed}."
        return
    for why, labels in _by_reason(effect.left):
        yield f"{effect.axis}: no mean of {', '.join(labels)}: {why}."


def _by_reason(left: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each reason with what it holds for."""
    reasons: dict[str, list[str]] = {}
    for name, why in left.items():
        reasons.setdefault(why.rstrip("."), []).append(name)
    yield from reasons.items()


def _rows(effect: AxisEffect, places: int) -> Iterator[EffectRow]:
    for one in effect.labels:
        mean, cells = number(one.mean, places), str(one.contexts)
        if one.label == effect.reference:
            yield EffectRow(one.label, mean, cells, "reference", "")
            continue
        difference = signed(one.difference, places)
        if one.std is not None:
            difference += f" ± {number(one.std, places)}"
        yield EffectRow(one.label, mean, cells, difference, str(one.pairs))


def _heat_maps(data: StudyData, summary: Summary) -> Iterator[HeatMap]:
    axes = [axis for axis in data.axes if len(axis.labels) > 1]
    together = {(one.axis, other) for one in main_effects(data, summary) for other in one.together}
    for first, second in combinations(axes, 2):
        if (first.name, second.name) in together:
            continue
        # The longer axis goes down: a page has more height than width.
        rows, columns = (first, second) if len(first.labels) >= len(second.labels) else (second, first)
        grid = interaction(data, summary, rows.name, columns.name)
        if any(mean is not None for line in grid.means for mean in line):
            yield _heat_map(grid, summary)


def _heat_map(grid: Grid, summary: Summary) -> HeatMap:
    means = [mean for line in grid.means for mean in line if mean is not None and math.isfinite(mean)]
    low, high = min(means, default=0.0), max(means, default=0.0)
    lower = summary.columns[-1].lower

    def cell(mean: float | None) -> HeatCell:
        if mean is None or not math.isfinite(mean):
            return HeatCell(number(mean), None)
        share = (mean - low) / (high - low) if high > low else 0.0
        share = 1 - share if lower else share
        return HeatCell(number(mean, summary.digits), round(_HEAT[0] + share * (_HEAT[1] - _HEAT[0])))

    each = "one cell" if grid.contexts == 1 else f"{grid.contexts:,} matched cells"
    remarks = [f"Mean of {each}, of the same combinations of everything else everywhere."]
    left = {f"{row}, {column}": why for (row, column), why in grid.left.items()}
    remarks += (f"Not shown: {'; '.join(pairs)}: {why}." for why, pairs in _by_reason(left))
    remarks += (*_other_seeds(summary), *_degenerate(summary))
    return HeatMap(
        title_of(summary),
        grid.rows.name,
        grid.columns.name,
        grid.columns.labels,
        tuple(
            (label, tuple(map(cell, line))) for label, line in zip(grid.rows.labels, grid.means, strict=True)
        ),
        f"Darker: {'lower' if lower else 'higher'}.",
        " ".join(remarks),
    )
