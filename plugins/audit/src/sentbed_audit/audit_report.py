"""Report of an audit: a page, a CSV file of all scores, and JSON."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.helpers import write_atomic
from sentbed.tools import plain
from sentbed_report.formatting import count, first_names, range_text
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import AnswerLine, Page, page_html
from sentbed_report.page.sections import Section, Value, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.tables.column import Column
from sentbed_report.tables.comma_separated import csv_text

from sentbed_audit.audit import Audit
from sentbed_audit.findings import SENTENCES, Finding, Kind
from sentbed_audit.ranking_tests import Claims, Neighbours

MOST_DETAILS = 300
"""Maximum number of findings that the page lists one by one; `audit.json` has all of them."""

METHOD = (
    "Each pair of models is compared by Wilcoxon's signed-rank test over the tasks of the mean. The p-values of "
    "all pairs are corrected by Holm's method. The interval of a model's rank follows from the pairs that differ "
    "at 5 %.",
    "The tests ask whether other tasks of this kind would give the same order. If tasks resemble each other, "
    "such as parts of one collection, p-values are too small. Variation over seeds and items is not included.",
)


def write_audit(directory: Path, audit: Audit) -> Path:
    """Write `scores.csv`, `audit.json`, `report.md` and `report.html`; return the path of `report.html`.

    Raises:
        RunError: if a file cannot be written. No file is left half written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    # Seeds stay whole numbers where some scores have none.
    scores = audit.results.scores.astype({"seed": "Int64"})
    write_atomic(directory / "scores.csv", csv_text(scores))
    record = json.dumps(audit_record(audit), indent=2, ensure_ascii=False)
    write_atomic(directory / "audit.json", f"{record}\n")
    page = audit_page(audit)
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"


def audit_record(audit: Audit) -> Any:
    """Return an audit as a JSON object."""
    record: dict[str, Any] = {
        "files": audit.results.files,
        "scores": len(audit.results.scores),
        "models": len(audit.comparable.scores),
        "tasks": list(audit.comparable.scores.columns),
        "findings": _records(audit.comparable.findings),
        "duplicates": audit.comparable.duplicates,
        "problem": audit.problem,
    }
    claims = audit.claims
    if claims is not None:
        record["ranking"] = _ranking_records(claims)
        record["pairs"] = pair_counts(claims)
        record["neighbours"] = _records(claims.neighbours)
        record["leaders"] = claims.leaders
    return plain(record)


def _records(items: Iterable[Any]) -> list[dict[str, Any]]:
    """Return attrs objects as JSON objects."""
    return [attrs.asdict(item) for item in items]


def _ranking_records(claims: Claims) -> list[dict[str, Any]]:
    """Return a JSON object for each model, in the order of the ranking."""
    records = []
    for place, model in enumerate(claims.scores.index):
        type_means = {}
        if not claims.type_means.empty:
            type_means = claims.type_means.iloc[place].to_dict()
        records.append(
            {
                "model": str(model),
                "mean": claims.means.iloc[place],
                "mean_rank": claims.mean_ranks.iloc[place],
                "rank_interval": claims.rank_intervals[place],
                "type_means": type_means,
            }
        )

    return records


def pair_counts(claims: Claims) -> dict[str, int]:
    """Return the numbers of pairs of models by which the report describes the ranking.

    They are the number of all pairs and of pairs of neighbours in the ranking, and how many of each differ
    significantly, with and without correction. `neighbours_in_conflict` counts the pairs with
    `Neighbours.is_conflict`.
    """
    rows = len(claims.scores)
    counts = {
        "all": rows * (rows - 1) // 2,
        "differ": int(claims.pairs.better(corrected=False).sum()),
        "differ_corrected": int(claims.pairs.better().sum()),
        "neighbours": rows - 1,
        "neighbours_differ": 0,
        "neighbours_differ_corrected": 0,
        "neighbours_in_conflict": 0,
    }
    for pair in claims.neighbours:
        if pair.p_value < SIGNIFICANT:
            counts["neighbours_differ"] += 1
        if pair.corrected < SIGNIFICANT:
            counts["neighbours_differ_corrected"] += 1
        if pair.is_conflict:
            counts["neighbours_in_conflict"] += 1

    return counts


def answers(audit: Audit) -> list[AnswerLine]:
    """Return the answers at the top of the report, which the command `audit` also prints."""
    conditions = findings_sentence(audit.comparable.findings)
    if not conditions:
        conditions = "No differences between conditions were found."
    claims = audit.claims
    if claims is None:
        return [
            AnswerLine("Claims", f"None: {audit.problem}."),
            AnswerLine("Warnings", conditions),
        ]

    counts = pair_counts(claims)
    return [
        AnswerLine("First", _first_sentence(claims)),
        AnswerLine("Ranking", _ranking_sentence(claims, counts)),
        AnswerLine("Mean", _conflict_sentence(claims, counts)),
        AnswerLine("Warnings", conditions),
    ]


def _first_sentence(claims: Claims) -> str:
    """Return a sentence on the model with the best mean, and on how many are not significantly worse than it."""
    rows, tasks = claims.scores.shape
    name = claims.scores.index[0]
    mean = claims.means.iloc[0]
    others = count(claims.not_told_apart_from_first, "model")
    return (
        f"{name} has the best mean, {mean:.2f}; {others} of {rows - 1} "
        f"are not significantly worse over {count(tasks, 'task')}."
    )


def _ranking_sentence(claims: Claims, counts: dict[str, int]) -> str:
    """Return a sentence on how many neighbours and pairs differ significantly, or on why none can."""
    neighbours = counts["neighbours"]
    alike = neighbours - counts["neighbours_differ"]
    tasks = claims.scores.shape[1]
    start = f"{alike} of {neighbours} neighbours do not differ significantly"
    if tasks < claims.tasks_needed:
        return (
            f"{start}. After correction for {counts['all']:,} pairs, none can: over {count(tasks, 'task')} no "
            f"p-value is below {claims.smallest_p_value:.2g}, and {claims.tasks_needed} tasks are needed, or "
            "fewer models (`--model`)."
        )

    alike_corrected = neighbours - counts["neighbours_differ_corrected"]
    return (
        f"{start}, {alike_corrected} after correction; of all {counts['all']:,} pairs "
        f"{counts['differ_corrected']:,} differ."
    )


def _conflict_sentence(claims: Claims, counts: dict[str, int]) -> str:
    """Return a sentence on the ways of ranking with another first model, and on the neighbours in conflict."""
    first = str(claims.scores.index[0])
    others = []
    for way, leader in claims.leaders.items():
        if leader != first:
            others.append(f"{leader} by {way}")

    leaders = "The same model is first in every way of ranking"
    if others:
        leaders = f"First is {' and '.join(others)}"
    return (
        f"{leaders}; in {counts['neighbours_in_conflict']} of {counts['neighbours']} pairs of neighbours, "
        "the one with the better mean loses on more tasks than it wins."
    )


def findings_sentence(findings: Sequence[Finding]) -> str:
    """Return a sentence with the number of findings of each kind; empty if there are no findings."""
    counts = Counter(finding.kind for finding in findings)
    if not counts:
        return ""

    numbers = []
    for kind in SENTENCES:
        if kind in counts:
            numbers.append(f"{kind} {counts[kind]}")
    return f"Findings: {', '.join(numbers)}."


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    scores = audit.comparable.scores
    status_class, status = "failed", "Nothing can be claimed."
    sections = []
    ranked = 0
    if audit.claims is not None:
        ranked = len(audit.claims.scores)
        status_class, status = "finished", "Audited."
        sections.append(_ranking_section(audit.claims))
        sections.append(_neighbours_section(audit.claims.neighbours))
    sections.append(_findings_section(audit.comparable.findings))
    return Page(
        title=audit.name,
        status_class=status_class,
        status=status,
        summary=(
            f"{len(audit.results.scores):,} scores in {audit.results.files:,} files: "
            f"{count(len(scores), 'model')} with a score, {count(ranked, 'model')} ranked, "
            f"{count(scores.shape[1], 'task')}."
        ),
        answer=tuple(answers(audit)),
        sections=tuple(sections),
    )


def _findings_section(findings: Sequence[Finding]) -> Section:
    """Return the section with the kinds of findings, and with the first `MOST_DETAILS` findings one by one."""
    by_kind: defaultdict[Kind, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_kind[finding.kind].append(finding)

    kinds = []
    details: list[tuple[str, ...]] = []
    for kind, sentence in SENTENCES.items():
        findings_of_kind = by_kind[kind]
        if findings_of_kind:
            consequence = findings_of_kind[-1].consequence
            kinds.append((kind, len(findings_of_kind), consequence, sentence))
        for finding in findings_of_kind:
            details.append(
                (kind, finding.subject, finding.detail, first_names(finding.files))
            )

    summary = table_of(
        "Kinds of findings",
        ["kind"],
        [Column("findings", form="count"), "consequence", "what they are"],
        kinds,
    )
    notes = []
    if len(details) > MOST_DETAILS:
        notes.append(f"{len(details) - MOST_DETAILS:,} more are in audit.json.")
    listing = table_of(
        "Findings",
        ["kind", "about"],
        ["finding", "files"],
        details[:MOST_DETAILS],
        notes,
    )
    return Section(
        "What may be compared", findings_sentence(findings), tables=(summary, listing)
    )


def _ranking_section(claims: Claims) -> Section:
    """Return the section with the mean and the interval of ranks of each model."""
    columns: list[Column | str] = [
        Column("mean", direction="higher"),
        "ranks",
        Column("mean rank", direction="lower"),
    ]
    for name in claims.type_means:
        columns.append(Column(name, direction="higher", group="types of tasks"))

    rows = []
    for place, model in enumerate(claims.scores.index):
        mean = float(claims.means.iloc[place])
        mean_rank = float(claims.mean_ranks.iloc[place])
        ranks = range_text(*claims.rank_intervals[place])
        row: list[Value] = [str(place + 1), str(model), mean, ranks, mean_rank]
        row += map(float, claims.type_means.iloc[place])
        rows.append(row)

    table = table_of("Ranking", ["place", "model"], columns, rows, METHOD)
    return Section(
        "Ranking",
        "intervals of ranks",
        tables=(table,),
        is_open=True,
    )


def _neighbours_section(neighbours: Sequence[Neighbours]) -> Section:
    """Return the section with the test of each model against the next one in the ranking."""
    rows = []
    different_pairs = 0
    for pair in neighbours:
        won = str(pair.wins)
        if pair.is_conflict:
            won += f", lost {pair.losses}"
        rows.append(
            (
                pair.first,
                pair.second,
                pair.difference,
                pair.p_value,
                pair.corrected,
                won,
            )
        )
        if pair.corrected < SIGNIFICANT:
            different_pairs += 1

    columns: list[Column | str] = [
        Column("difference", form="signed"),
        Column("p", form="p-value"),
        Column("p, corrected", form="p-value"),
        "tasks won",
    ]
    table = table_of("Neighbours in the ranking", ["model", "next one"], columns, rows)
    summary = f"{different_pairs} of {len(rows)} differ significantly"
    return Section("Neighbours", summary, tables=(table,))
