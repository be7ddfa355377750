"""Section on cells that cannot be told apart: rank groups, intervals of ranks, and ranks over tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.figures.study_figures import KINDS, plots_of
from sentbed_report.formatting import number, related_probability
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.statistics.significance import Basis, common_basis
from sentbed_report.study.rank_groups import RankGroups, TaskRanks
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
    pairing = ""
    has_groups = False
    has_ranks_over_tasks = False
    for summary in summaries:
        groups = summary.groups
        if groups is None:
            continue
        has_groups = True
        notes += _notes(title_of(summary), groups)
        if groups.rows:
            lines.append(_line(summary, groups))
            tables.append(_table(summary, groups))
            pairing = pairing or summary.pairing
            if groups.basis:
                bases.add(groups.basis)
        if groups.tasks is not None:
            has_ranks_over_tasks = True
            tables.append(_task_table(summary, groups.tasks))
    if not has_groups:
        return None

    line = "no two cells can be compared"
    sentences: list[str] = []
    if lines:
        line = lines[0]
        sentences += _sentences(pairing, common_basis(bases))
    if has_ranks_over_tasks:
        sentences.append(
            "Ranks over tasks answer another question: would the order hold on other tasks like these? "
            "Friedman's test and Nemenyi's critical difference treat the tasks as a sample, and count only "
            f"which cell is better in each task, not by how much or how surely. Their error rate is {_LEVEL}, "
            "too."
        )
    plots = plots_of(KINDS["ranks"], data, summaries)
    return Section("Rank groups", line, sentences, tables, notes, plots)


def _line(summary: Summary, groups: RankGroups) -> str:
    """Return how many cells may be the best."""
    possible = 0
    for row in groups.rows:
        if row.lowest_rank == 1:
            possible += 1
    return (
        f"{possible} of {len(groups.rows)} cells may be the best in {title_of(summary)}"
    )


def _sentences(pairing: str, basis: Basis) -> Iterator[str]:
    """Yield sentences that explain letters, tests and intervals of ranks."""
    yield (
        "Cells that share a letter cannot be told apart. Cells that share no letter differ significantly. A "
        "shared letter does not mean that two cells are equal."
    )
    yield (
        f"Every two cells are compared, {pairing}, over {basis} as in tests against a "
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
        "groups",
        "ranks",
        Column("from the best", form="signed", digits=summary.digits),
    )
    rows = []
    for row in groups.rows:
        from_best = Estimate(value=row.from_best, interval=(row.low, row.high))
        rows.append((row, row.mean, row.letters or None, row.ranks, from_best))
    return table_of(title_of(summary), ["cell"], columns, rows)


def _task_table(summary: Summary, tasks: TaskRanks) -> Table:
    return table_of(
        f"{title_of(summary)}: ranks over {len(tasks.tasks)} tasks",
        ["cell"],
        [Column("mean rank"), "groups"],
        [(row, row.mean_rank, row.letters) for row in tasks.rows],
        _task_notes(summary, tasks),
    )


def _notes(title: str, groups: RankGroups) -> Iterator[str]:
    if groups.reason:
        what = "no letters" if groups.rows else "no groups"
        yield f"{title}: {what}, since {groups.reason}."
    yield from _left_out(title, groups.left)


def _task_notes(summary: Summary, tasks: TaskRanks) -> Iterator[str]:
    test = f"Over {', '.join(tasks.tasks)}: Friedman's test, p {related_probability(tasks.p_value)}"
    if tasks.significant:
        yield (
            f"{test}; mean ranks that differ by less than the critical difference, "
            f"{number(tasks.critical)}, cannot be told apart."
        )
    else:
        yield f"{test}: the tasks do not tell any cells apart."

    if not tasks.seeds:
        if len(summary.seeds) > 1:
            yield "Each cell has its mean over its own seeds, since the cells share no seed."
    elif len(tasks.seeds) < len(summary.seeds):
        yield f"Means are over the seeds that all cells have ({', '.join(map(str, tasks.seeds))})."
    yield from _left_out("Over tasks", tasks.left)


def _left_out(title: str, left: Sequence[tuple[str, str]]) -> Iterator[str]:
    for reason, names in labels_by_reason(dict(left)).items():
        yield f"{title}: left out, since {reason}: {'; '.join(names)}."
