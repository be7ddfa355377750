"""The report of an audit: a page, the frame of all scores, and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.helpers import write_atomic
from sentbed.tools import plain
from sentbed_report.formatting import count, first_names
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import AnswerLine, Page, page_html
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.resampling import SIGNIFICANT
from sentbed_report.tables.column import Column
from sentbed_report.tables.table import Table

from sentbed_audit.audit import Audit
from sentbed_audit.claims import Claims, Neighbours, WithoutPart
from sentbed_audit.findings import SENTENCES, Finding

MOST_DETAILS = 300
"""Findings that the page lists; `audit.json` has all of them."""

METHOD = (
    "Pairs of models are compared by Wilcoxon's signed-rank test over the tasks that both have on the same "
    "revision of the data; p-values of all pairs are corrected by Holm's method, and an interval of ranks "
    "follows from the pairs that differ at 5 %.",
    "The tests ask whether other tasks of this kind would give the same order. Tasks that resemble each "
    "other, such as parts of one collection, make them too certain. Seeds and items play no part.",
)
FEWEST_TASKS = 6
"""Of five differences, also all on one side have a p-value above 5 %."""

NEEDED = (
    "Tasks needed: how many tasks like these separate the two in four of five cases, without correction; "
    "none where they are more than 10,000."
)


def write_audit(directory: Path, audit: Audit) -> Path:
    """Write `scores.csv`, `audit.json`, `report.md` and `report.html`; return the path of the last.

    Raises:
        RunError: if a file cannot be written; each is written atomically.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / "scores.csv", audit.results.scores.to_csv(index=False))
    record = json.dumps(audit_record(audit), indent=2, ensure_ascii=False)
    write_atomic(directory / "audit.json", f"{record}\n")
    page = audit_page(audit)
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"


def audit_record(audit: Audit) -> Any:
    """Return an audit as what JSON holds."""
    record: dict[str, Any] = {
        "files": audit.results.files,
        "scores": len(audit.results.scores),
        "models": len(audit.comparable.scores),
        "tasks": list(audit.comparable.scores.columns),
        "findings": [attrs.asdict(finding) for finding in audit.comparable.findings],
        "duplicates": audit.comparable.duplicates,
        "problem": audit.problem,
    }
    claims = audit.claims
    if claims is not None:
        record["ranking"] = [
            {
                "model": str(model),
                "mean": claims.means.iloc[place],
                "mean_rank": claims.mean_ranks.iloc[place],
                "rank_interval": claims.rank_intervals[place],
                "type_means": {} if claims.type_means.empty else claims.type_means.iloc[place].to_dict(),
            }
            for place, model in enumerate(claims.scores.index)
        ]
        record["pairs"] = pair_counts(claims)
        record["neighbours"] = [attrs.asdict(pair) for pair in claims.neighbours]
        record["leaders"] = claims.leaders
        for name in ("without_task", "without_type", "without_duplicates"):
            record[name] = [attrs.asdict(part) for part in getattr(claims, name)]
    return plain(record)


def pair_counts(claims: Claims) -> dict[str, int]:
    """Return how many pairs there are, and how many differ with and without correction."""
    rows = len(claims.scores)
    return {
        "all": rows * (rows - 1) // 2,
        "differ": int(claims.pairs.better(corrected=False).sum()),
        "differ_corrected": int(claims.pairs.better().sum()),
        "neighbours": rows - 1,
        "neighbours_differ": sum(pair.p_value < SIGNIFICANT for pair in claims.neighbours),
        "neighbours_differ_corrected": sum(pair.corrected < SIGNIFICANT for pair in claims.neighbours),
        "neighbours_in_conflict": sum(pair.is_conflict for pair in claims.neighbours),
    }


def answers(audit: Audit) -> list[AnswerLine]:
    """Return what the audit says at the top."""
    mixture = mixture_sentence(audit.comparable.findings) or "No mixture of conditions was found."
    claims = audit.claims
    if claims is None:
        return [AnswerLine("Claims", f"None: {audit.problem}."), AnswerLine("Mind", mixture)]
    counts = pair_counts(claims)
    return [
        AnswerLine("First", _first_sentence(claims)),
        AnswerLine("Ranking", _ranking_sentence(counts)),
        AnswerLine("Mean", _conflict_sentence(claims, counts)),
        AnswerLine("Hangs on", _parts_sentence(claims)),
        AnswerLine("Mind", mixture),
    ]


def _first_sentence(claims: Claims) -> str:
    rows, tasks = claims.scores.shape
    others = count(claims.not_told_apart_from_first, "model")
    return (
        f"{claims.scores.index[0]} has the best mean, {claims.means.iloc[0]:.2f}; {others} of {rows - 1} "
        f"cannot be told apart from it over {tasks} tasks."
    )


def _ranking_sentence(counts: dict[str, int]) -> str:
    neighbours = counts["neighbours"]
    alike = neighbours - counts["neighbours_differ"]
    alike_corrected = neighbours - counts["neighbours_differ_corrected"]
    return (
        f"{alike} of {neighbours} neighbours cannot be told apart without correction, {alike_corrected} with "
        f"it; of all {counts['all']:,} pairs {counts['differ_corrected']:,} differ."
    )


def _conflict_sentence(claims: Claims, counts: dict[str, int]) -> str:
    first = str(claims.scores.index[0])
    others = [f"{leader} by {way}" for way, leader in claims.leaders.items() if leader != first]
    leader = f"First is {' and '.join(others)}" if others else "The same model is first by every way to rank"
    return (
        f"{leader}; in {counts['neighbours_in_conflict']} of {counts['neighbours']} pairs of neighbours, the "
        "one with the better mean loses on more tasks than it wins."
    )


def _parts_sentence(claims: Claims) -> str:
    first = str(claims.scores.index[0])
    types = [part.left_out for part in claims.without_type if part.first != first]
    tasks = [part.left_out for part in claims.without_task if part.first != first]
    parts = []
    if types:
        parts.append(f"without the type {' or '.join(types)}")
    if tasks:
        parts.append(f"without any one of {count(len(tasks), 'task')} ({first_names(tasks)})")
    if not parts:
        return "Without any one task or type of tasks, the same model is first."
    return f"Another model is first {', or '.join(parts)}."


def mixture_sentence(findings: Sequence[Finding]) -> str:
    """Return how many findings there are of each kind, as a sentence; empty where there are none."""
    counts = Counter(finding.kind for finding in findings)
    if not counts:
        return ""
    listed = [f"{kind} {counts[kind]}" for kind in SENTENCES if kind in counts]
    return f"Findings: {', '.join(listed)}."


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    scores = audit.comparable.scores
    status_class, status = "failed", "Nothing can be claimed."
    sections = []
    if audit.claims is not None:
        status_class, status = "finished", "Audited."
        sections.append(_ranking_section(audit.claims))
        sections.append(_neighbours_section(audit.claims.neighbours))
        sections.append(_without_section(audit.claims))
    sections.append(_findings_section(audit.comparable.findings))
    return Page(
        title=audit.name,
        status_class=status_class,
        status=status,
        summary=(
            f"{len(audit.results.scores):,} scores in {audit.results.files:,} files: "
            f"{count(len(scores), 'model')}, {count(scores.shape[1], 'task')}."
        ),
        answer=tuple(answers(audit)),
        facts=(),
        sections=tuple(sections),
    )


def _findings_section(findings: Sequence[Finding]) -> Section:
    counts = Counter(finding.kind for finding in findings)
    consequences = {finding.kind: finding.consequence for finding in findings}
    kinds = [
        (kind, counts[kind], consequences[kind], sentence)
        for kind, sentence in SENTENCES.items()
        if kind in counts
    ]
    summary = table_of(
        "Kinds of findings",
        ["kind"],
        [Column("findings", form="count"), "consequence", "what they are"],
        kinds,
    )
    order = list(SENTENCES)
    ordered = sorted(findings, key=lambda finding: order.index(finding.kind))
    details = [
        (finding.kind, finding.subject, finding.detail, first_names(finding.files))
        for finding in ordered[:MOST_DETAILS]
    ]
    notes = []
    if len(findings) > MOST_DETAILS:
        notes.append(f"{len(findings) - MOST_DETAILS:,} more are in audit.json.")
    listing = table_of("Findings", ["kind", "about"], ["finding", "files"], details, notes)
    return Section("What may be compared", mixture_sentence(findings), tables=(summary, listing))


def _ranking_section(claims: Claims) -> Section:
    columns: list[Column | str] = [
        Column("mean", direction="higher"),
        "ranks",
        Column("mean rank", direction="lower"),
    ]
    columns += [Column(name, direction="higher", group="types of tasks") for name in claims.type_means]
    columns += [f"ranks in {name}" for name in claims.type_rank_intervals]
    rows = []
    for place, model in enumerate(claims.scores.index):
        row: list[Value] = [str(place + 1), str(model)]
        row.append(float(claims.means.iloc[place]))
        row.append(_interval(claims.rank_intervals[place]))
        row.append(float(claims.mean_ranks.iloc[place]))
        row += [float(claims.type_means[name].iloc[place]) for name in claims.type_means]
        row += [_interval(intervals[place]) for intervals in claims.type_rank_intervals.values()]
        rows.append(row)
    table = table_of("Ranking", ["place", "model"], columns, rows, METHOD)
    tasks_of_type = Counter(claims.types.values())
    few = [f"{name} ({tasks})" for name, tasks in tasks_of_type.items() if tasks < FEWEST_TASKS]
    notes = []
    if few:
        notes.append(
            "Fewer than six tasks separate no two models by this test, whatever their scores: "
            f"{', '.join(few)}."
        )
    return Section("Ranking", "intervals of ranks", tables=(table,), notes=notes, is_open=True)


def _interval(interval: tuple[int, int]) -> str:
    low, high = interval
    return str(low) if low == high else f"{low} to {high}"


def _neighbours_section(neighbours: Sequence[Neighbours]) -> Section:
    rows = []
    for pair in neighbours:
        won = f"{pair.wins} of {pair.tasks}"
        if pair.is_conflict:
            won += " (fewer)"
        rows.append(
            (pair.first, pair.second, pair.difference, pair.p_value, pair.corrected, won, pair.tasks_needed)
        )
    columns: list[Column | str] = [
        Column("difference", form="signed"),
        Column("p", form="p-value"),
        Column("p, corrected", form="p-value"),
        "tasks won",
        Column("tasks needed", form="count"),
    ]
    table = table_of("Neighbours in the ranking", ["model", "next one"], columns, rows, [NEEDED])
    apart = sum(pair.corrected < SIGNIFICANT for pair in neighbours)
    return Section("Neighbours", f"{apart} of {len(rows)} can be told apart", tables=(table,))


def _without_section(claims: Claims) -> Section:
    parts = (
        ("a type of tasks", claims.without_type),
        ("duplicates", claims.without_duplicates),
        ("a task", claims.without_task),
    )
    tables = [_without_table(name, changes) for name, changes in parts if changes]
    first = str(claims.scores.index[0])
    others = 0
    for _, changes in parts:
        others += sum(part.first != first for part in changes)
    return Section("What the ranking hangs on", f"{others} parts decide who is first", tables=tables)


def _without_table(name: str, changes: Sequence[WithoutPart]) -> Table:
    rows = [
        (part.left_out, part.first, part.rank_changes, part.largest_move, part.tau)
        for part in sorted(changes, key=lambda part: part.tau)
    ]
    columns: list[Column | str] = [
        "first then",
        Column("ranks that change", form="count"),
        Column("largest move", form="count"),
        Column("Kendall's tau", digits=3),
    ]
    return table_of(f"Without {name}", ["left out"], columns, rows)
