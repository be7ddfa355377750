"""Section of a study's report on which cells cannot be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sentbed_report.formatting import number, probability
from sentbed_report.statistics.resampling import SIGNIFICANT
from sentbed_report.study.decisions import Decisions
from sentbed_report.study.rank_groups import RankGroups, TaskRanks
from sentbed_report.study.summary_tables import Summary, title_of
from sentbed_report.study_page.sections import Section, SectionRow, SectionTable

_LEVEL = f"{100 * SIGNIFICANT:g} %"


def rank_groups_section(summaries: Sequence[Summary], decisions: Decisions | None = None) -> Section | None:
    """Return the section; None if no table has two rows that have finished.

    `decisions` are those of the study, if it stops cells.
    """
    found = [(summary, summary.groups) for summary in summaries if summary.groups is not None]
    if not found:
        return None
    tables: list[SectionTable] = []
    remarks = list(_decided(decisions)) if any(groups.rows for _, groups in found) else []
    for summary, groups in found:
        if groups.rows:
            tables.append(_table(summary, groups))
        remarks += _remarks(title_of(summary), groups)
        if groups.tasks is not None:
            tables.append(_task_table(title_of(summary), groups.tasks))
            remarks += _task_remarks(summary, groups.tasks)
    return Section("Rank groups", tuple(_said(found)), tuple(tables), tuple(remarks))


def _said(found: Sequence[tuple[Summary, RankGroups]]) -> Iterator[str]:
    grouped = [(summary, groups) for summary, groups in found if groups.rows]
    if grouped:
        bases = {groups.basis for _, groups in grouped}
        basis = next(iter(bases)) if len(bases) == 1 else "items and seeds"
        yield (
            "Cells that share a letter cannot be told apart, and cells that share none differ. A shared "
            "letter does not mean that two cells are equal."
        )
        yield (
            f"Every two cells are compared, each seed with the same seed, over {basis} as in tests against a "
            f"baseline, with Holm's correction over all pairs of a table{_times(grouped[0][0])}: in at most "
            f"{_LEVEL} of studies like this one is any pair of a table wrongly told apart. Ranks: from 1 + "
            "the number of cells that are significantly better to the number of cells less those that are "
            "significantly worse; with the same error rate, all true ranks lie within at once."
        )
    if any(groups.tasks is not None for _, groups in found):
        yield (
            "Ranks over tasks ask another question: would the order hold on other tasks like these? "
            "Friedman's test and Nemenyi's critical difference take the tasks as a sample, and count only "
            f"who is better in each, not by how much or how surely. Their error rate is {_LEVEL}, too."
        )


def _decided(decisions: Decisions | None) -> Iterator[str]:
    if decisions is None or not decisions.claims:
        return
    yield (
        "A cell may be worse than another in Decisions and still share a letter with it here. Decisions "
        "takes the spread over seeds partly from all cells together, which says more while there are few "
        "seeds; here each pair has only its own. Tables may also be of scores that do not decide."
    )


def _times(summary: Summary) -> str:
    return "" if summary.looks == 1 else f", times the {summary.looks} looks at which cells may be stopped"


def _table(summary: Summary, groups: RankGroups) -> SectionTable:
    rows = tuple(
        SectionRow(row.name, (number(row.mean, summary.digits), row.letters or "–", row.ranks), row.cell)
        for row in groups.rows
    )
    headings = ("Cell", summary.headings[-1], "Groups", "Ranks")
    return SectionTable(title_of(summary), headings, rows, numbers=(1, 3))


def _task_table(title: str, tasks: TaskRanks) -> SectionTable:
    rows = tuple(SectionRow(row.name, (number(row.mean_rank), row.letters), row.cell) for row in tasks.rows)
    headings = ("Cell", "Mean rank", "Groups")
    return SectionTable(f"{title}: ranks over {len(tasks.tasks)} tasks", headings, rows, numbers=(1,))


def _remarks(title: str, groups: RankGroups) -> Iterator[str]:
    if groups.reason:
        what = "no letters" if groups.rows else "no groups"
        yield f"{title}: {what}, since {groups.reason}."
    if stopped := [row.name for row in groups.rows if row.stopped]:
        yield (
            f"{title}: stopped cells come last, whatever their means, which are over other seeds than those "
            f"of cells that went on: {'; '.join(stopped)}."
        )
    yield from _left(title, groups.left)


def _task_remarks(summary: Summary, tasks: TaskRanks) -> Iterator[str]:
    title = title_of(summary)
    found = f"{title}, over {', '.join(tasks.tasks)}: Friedman's test, p {_equals(tasks.p_value)}"
    if tasks.significant:
        yield (
            f"{found}; mean ranks that differ by less than the critical difference, "
            f"{number(tasks.critical)}, cannot be told apart."
        )
    else:
        yield f"{found}: the tasks do not tell any cells apart."
    if not tasks.seeds:
        if len(summary.seeds) > 1:
            yield f"{title}, over tasks: each cell has its mean over its own seeds, since they share none."
    elif len(tasks.seeds) < len(summary.seeds):
        listed = ", ".join(map(str, tasks.seeds))
        yield f"{title}, over tasks: means over the seeds that all cells have ({listed})."
    yield from _left(f"{title}, over tasks", tasks.left)


def _equals(p_value: float) -> str:
    text = probability(p_value)
    return text if text.startswith("<") else f"= {text}"


def _left(title: str, left: Sequence[tuple[str, str]]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, why in left:
        reasons.setdefault(why.rstrip("."), []).append(name)
    for why, names in reasons.items():
        yield f"{title}: left out, since {why}: {'; '.join(names)}."
