"""Section on the cells that the best one does not beat, with intervals of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.significance import Basis, common_basis
from sentbed_report.study.rank_groups import RankGroups
from sentbed_report.study.study_data import StudyData
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.effects_section import labels_by_reason
from sentbed_report.tables.column import Column
from sentbed_report.tables.estimate import Estimate
from sentbed_report.tables.table import Table

_LEVEL = f"{100 * SIGNIFICANT:g} %"


def rank_groups_section(
    data: StudyData, summaries: Sequence[Summary]
) -> Section | None:
    """Return the section; None if no table has two rows that have finished."""
    tables: list[Table] = []
    notes: list[str] = []
    lines: list[str] = []
    bases: set[Basis] = set()
    has_groups = False
    for summary in summaries:
        groups = summary.groups
        if groups is None:
            continue
        has_groups = True
        notes += _notes(title_of(summary), groups)
        if groups.rows:
            lines.append(_line(summary, groups))
            tables.append(_table(summary, groups))
            if groups.basis:
                bases.add(groups.basis)
    if not has_groups:
        return None

    line = "no two cells can be compared"
    sentences: list[str] = []
    if lines:
        line = lines[0]
        sentences += _sentences(common_basis(bases))
    return Section("Rank groups", line, sentences, tables, notes)


def _line(summary: Summary, groups: RankGroups) -> str:
    """Return how many cells may be the best."""
    possible = 0
    for row in groups.rows:
        if row.lowest_rank == 1:
            possible += 1
    return (
        f"{possible} of {len(groups.rows)} cells may be the best in {title_of(summary)}"
    )


def _sentences(basis: Basis) -> Iterator[str]:
    """Yield sentences that explain marks, tests and intervals of ranks."""
    yield (
        "Beaten: whether the best cell is significantly better. That a cell is not beaten does not mean that it "
        "is equal to the best."
    )
    yield (
        f"Every two cells are compared over {basis} as in tests against a "
        f"baseline, with Holm's correction over all pairs of a table: in at most {_LEVEL} of "
        "studies like this one, any pair of a table is wrongly told apart. Ranks: the lowest is 1 plus the "
        "number of significantly better cells, the highest is the number of cells minus that of "
        "significantly worse cells. With the same error rate, all true ranks are in these intervals at "
        "once. From the best: the difference, with bounds that hold for all pairs at once."
    )


def _table(summary: Summary, groups: RankGroups) -> Table:
    last = summary.columns[-1]
    columns = (
        Column(last.task, last.metric, heading=last.heading, digits=summary.digits),
        "beaten",
        "ranks",
        Column("from the best", form="signed", digits=summary.digits),
    )
    rows = []
    for row in groups.rows:
        from_best = Estimate(value=row.from_best, interval=(row.low, row.high))
        beaten = "yes" if row.beaten else "no"
        rows.append((row, row.mean, beaten, row.ranks, from_best))
    return table_of(title_of(summary), ["cell"], columns, rows)


def _notes(title: str, groups: RankGroups) -> Iterator[str]:
    if groups.reason:
        yield f"{title}: no groups, since {groups.reason}."
    yield from _left_out(title, groups.left)


def _left_out(title: str, left: Sequence[tuple[str, str]]) -> Iterator[str]:
    for reason, names in labels_by_reason(dict(left)).items():
        yield f"{title}: left out, since {reason}: {'; '.join(names)}."
