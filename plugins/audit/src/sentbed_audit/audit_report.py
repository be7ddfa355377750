"""Report of an audit: a page, a CSV file of all scores, and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from sentbed.helpers import write_atomic
from sentbed.tools import plain
from sentbed_report.formatting import count, first_names, range_text
from sentbed_report.page.markdown import page_markdown
from sentbed_report.page.report_page import AnswerLine, Page, page_html
from sentbed_report.page.sections import Section, table_of
from sentbed_report.statistics.levels import SIGNIFICANT
from sentbed_report.tables.column import Column
from sentbed_report.tables.comma_separated import csv_text

from sentbed_audit.audit import Audit
from sentbed_audit.findings import SENTENCES, Finding
from sentbed_audit.ranking_tests import Claims

MOST_DETAILS = 300
"""Maximum number of findings that the page lists one by one; `audit.json` has all of them."""

METHOD = (
    "Each pair of models is compared by Wilcoxon's signed-rank test over the tasks of the mean. The p-values of "
    "all pairs are corrected by Holm's method. The interval of a model's rank follows from the pairs that differ "
    "at 5 %. Difference and p-values are those from the next model.",
    "The tests ask whether other tasks of this kind would give the same order. If tasks resemble each other, "
    "such as parts of one collection, p-values are too small. Variation over seeds and items is not included.",
)


@attrs.frozen
class RankedModel:
    """A model of the ranking, and its comparison with the next one."""

    model: str
    mean: float
    rank_interval: tuple[int, int]
    difference: float | None = None
    """Mean of the model minus that of the next one; None for the last one."""
    p_value: float | None = None
    corrected: float | None = None


def ranking(claims: Claims) -> list[RankedModel]:
    """Return the models, the best mean first."""
    means = claims.means.to_list()
    rank_intervals = claims.rank_intervals
    models = []
    for place, name in enumerate(claims.scores.index):
        model = RankedModel(str(name), means[place], rank_intervals[place])
        if place + 1 < len(means):
            model = attrs.evolve(
                model,
                difference=means[place] - means[place + 1],
                p_value=float(claims.p_values[place, place + 1]),
                corrected=float(claims.corrected[place, place + 1]),
            )
        models.append(model)
    return models


def write_audit(directory: Path, audit: Audit) -> Path:
    """Write `scores.csv`, `audit.json`, `report.md` and `report.html`; return the path of `report.html`.

    Raises:
        RunError: if a file cannot be written. No file is left half written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    write_atomic(directory / "scores.csv", csv_text(audit.scores))
    record = json.dumps(audit_record(audit), indent=2, ensure_ascii=False)
    write_atomic(directory / "audit.json", f"{record}\n")
    page = audit_page(audit)
    write_atomic(directory / "report.md", page_markdown(page))
    write_atomic(directory / "report.html", page_html(page))
    return directory / "report.html"


def audit_record(audit: Audit) -> Any:
    """Return an audit as a JSON object."""
    record: dict[str, Any] = {
        "scores": len(audit.scores),
        "tasks": list(audit.comparable.columns),
        "findings": [attrs.asdict(finding) for finding in audit.findings],
        "problem": audit.problem,
    }
    if audit.claims is not None:
        record["ranking"] = [attrs.asdict(model) for model in ranking(audit.claims)]
        record["pairs"] = audit.claims.pairs
        record["pairs_that_differ"] = int(audit.claims.better.sum())
    return plain(record)


def answers(audit: Audit) -> list[AnswerLine]:
    """Return the answers at the top of the report, which the command `audit` also prints."""
    left_out = AnswerLine("Left out", _numbers_of_kinds(audit.findings))
    claims = audit.claims
    if claims is None:
        return [AnswerLine("Claims", f"None: {audit.problem}."), left_out]

    rows, tasks = claims.scores.shape
    alike = rows - 1 - int(claims.better[0].sum())
    first = (
        f"{claims.scores.index[0]} has the best mean, {claims.means.iloc[0]:.2f}; {count(alike, 'model')} of "
        f"{rows - 1} are not significantly worse over {count(tasks, 'task')}."
    )
    return [
        AnswerLine("First", first),
        AnswerLine("Ranking", _ranking_sentence(claims)),
        left_out,
    ]


def _ranking_sentence(claims: Claims) -> str:
    """Return a sentence on how many neighbours and pairs differ significantly, or on why none can."""
    neighbours = ranking(claims)[:-1]
    alike = alike_corrected = 0
    for model in neighbours:
        assert model.p_value is not None
        assert model.corrected is not None
        alike += int(model.p_value >= SIGNIFICANT)
        alike_corrected += int(model.corrected >= SIGNIFICANT)

    tasks = claims.scores.shape[1]
    start = f"{alike} of {len(neighbours)} neighbours do not differ significantly"
    if tasks < claims.tasks_needed:
        return (
            f"{start}. After correction for {claims.pairs:,} pairs, none can: over {count(tasks, 'task')} no "
            f"p-value is below {claims.smallest_p_value:.2g}, and {claims.tasks_needed} tasks are needed, or "
            "fewer models (`--model`)."
        )
    return (
        f"{start}, {alike_corrected} after correction; of all {claims.pairs:,} pairs "
        f"{int(claims.better.sum()):,} differ."
    )


def _numbers_of_kinds(findings: Sequence[Finding]) -> str:
    """Return a sentence with the number of findings of each kind."""
    counts = Counter(finding.kind for finding in findings)
    numbers = [f"{kind} {counts[kind]}" for kind in SENTENCES if kind in counts]
    return f"{', '.join(numbers) or 'nothing'}."


def audit_page(audit: Audit) -> Page:
    """Return the page of an audit."""
    status_class, status = "failed", "Nothing can be claimed."
    sections = []
    ranked = 0
    if audit.claims is not None:
        ranked = len(audit.claims.scores)
        status_class, status = "finished", "Audited."
        sections.append(_ranking_section(audit.claims))
    sections.append(_findings_section(audit.findings))
    models, tasks = audit.comparable.shape
    return Page(
        title=audit.name,
        status_class=status_class,
        status=status,
        summary=(
            f"{len(audit.scores):,} scores: {count(models, 'model')} with a score, {count(ranked, 'model')} "
            f"ranked, {count(tasks, 'task')}."
        ),
        answer=tuple(answers(audit)),
        sections=tuple(sections),
    )


def _findings_section(findings: Sequence[Finding]) -> Section:
    """Return the section with the kinds of findings, and with the first `MOST_DETAILS` findings one by one."""
    counts = Counter(finding.kind for finding in findings)
    kinds = []
    for kind, sentence in SENTENCES.items():
        if kind in counts:
            kinds.append((kind, counts[kind], sentence))
    details = []
    for finding in findings[:MOST_DETAILS]:
        files = first_names(finding.files)
        details.append((finding.kind, finding.subject, finding.detail, files))

    notes = []
    if len(findings) > MOST_DETAILS:
        notes.append(f"{len(findings) - MOST_DETAILS:,} more are in audit.json.")
    columns = [Column("findings", form="count"), Column("what they are")]
    tables = (
        table_of("Kinds of findings", ["kind"], columns, kinds),
        table_of("Findings", ["kind", "about"], ["finding", "files"], details, notes),
    )
    return Section("What is left out", _numbers_of_kinds(findings), tables=tables)


def _ranking_section(claims: Claims) -> Section:
    """Return the section with the mean and the ranks of each model, and its test against the next one."""
    columns = [
        Column("mean", direction="higher"),
        Column("ranks"),
        Column("difference", form="signed"),
        Column("p", form="p-value"),
        Column("p, corrected", form="p-value"),
    ]
    rows = []
    for place, model in enumerate(ranking(claims), start=1):
        ranks = range_text(*model.rank_interval)
        comparison = model.difference, model.p_value, model.corrected
        rows.append((str(place), model.model, model.mean, ranks, *comparison))
    table = table_of("Ranking", ["place", "model"], columns, rows, METHOD)
    return Section("Ranking", "intervals of ranks", tables=(table,), is_open=True)
