"""The report for terminals and pull requests: `report.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from sentbed.helpers import score_digits
from sentbed.protocols import StageCurve

from sentbed_report.format_independent_table import DEGENERATE
from sentbed_report.formatting import (
    WINNER,
    chance,
    expected_digits,
    expected_verdict,
    number,
    pairing,
    resampling,
    section_cell,
    signed,
    spread,
    status_line,
    summary,
    verdict,
    winner,
)
from sentbed_report.recipe_facts import recipe_facts
from sentbed_report.run_report import Difference, RunReport
from sentbed_report.score_tables import Cell, ScoreTable, score_tables

_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$#]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that Markdown may treat as markup within a line; underscores inside words are not."""


def to_markdown(data: RunReport) -> str:
    """Return `report.md`."""
    return "\n\n".join(_blocks(data)) + "\n"


def escape(text: str) -> str:
    """Return text as one line, escaped for Markdown, also inside tables."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _blocks(data: RunReport) -> Iterator[str]:
    yield f"# {escape(data.name)}"
    yield f"{status_line(data)} {escape(summary(data))}"
    if facts := recipe_facts(data.recipe_toml):
        yield "\n".join(f"- {escape(name)}: {escape(value)}" for name, value in facts)
    if data.error:
        yield _fenced(data.error)
    for warning in data.warnings:
        yield f"Warning: {escape(warning)}"
    if data.ranking:
        places = data.ranking.digits
        yield "## Search"
        yield escape(verdict(data.ranking))
        yield markdown_table(WINNER, [tuple(map(escape, winner(data.ranking)))], numbers=(2, 3, 4))
        yield markdown_table(
            ("rank", "sentence", "word", escape(data.ranking.evaluator), "difference"),
            (
                (
                    "–" if rank is None else str(rank),
                    escape(found.sentence),
                    escape(found.word),
                    number(found.score, places),
                    signed(difference, places),
                )
                for rank, found, difference in data.ranking.rows
            ),
            numbers=(0, 3, 4),
        )
    tables = score_tables(data.scores, data.bootstrap.intervals if data.bootstrap else ())
    if tables:
        yield "## Scores"
        yield _scores(tables)
        for said in dict.fromkeys(said for table in tables for said in table.remarks):
            yield escape(said)
        yield "Protocols:\n\n" + "\n".join(f"- {_protocol(table)}" for table in tables)
    if data.bootstrap:
        yield escape(resampling(data.bootstrap))
    if data.bootstrap and data.bootstrap.differences:
        yield "## Differences"
        yield _differences(data.bootstrap.differences)
        yield escape(pairing(len(data.bootstrap.differences), data.bootstrap.resamples))
    for section in data.sections:
        yield f"## {escape(section.title)}"
        yield markdown_table(
            [escape(name) for name in section.columns],
            ([escape(section_cell(value)) for value in row] for row in section.rows),
            numbers=(),
        )
        if section.note:
            yield escape(section.note)
    if data.expected:
        yield "## Expected"
        yield markdown_table(
            ("number", "found", "expected", "tolerance", "difference", "", "source"),
            (
                (
                    escape(row.key),
                    number(row.found, expected_digits(row)),
                    number(row.value, expected_digits(row)),
                    f"±{number(row.tolerance, expected_digits(row))}" if row.decides else "–",
                    signed(row.difference, expected_digits(row)),
                    f"**{expected_verdict(row)}**" if row.met is False else escape(expected_verdict(row)),
                    escape(row.source),
                )
                for row in data.expected
            ),
            numbers=range(1, 5),
        )
    if data.stages:
        yield "## Training"
        yield markdown_table(
            ("stage", "steps", "last loss", "validation", "best"),
            (
                (
                    escape(stage.name),
                    f"{stage.steps[-1]:,}" if len(stage.steps) else "–",
                    number(stage.losses[-1], 4) if len(stage.losses) else "–",
                    escape(stage.metric) if len(stage.validations) else "–",
                    _best(stage.validations, stage.best_step),
                )
                for stage in data.stages
            ),
            numbers=(1, 2),
        )
    if any(stage.watched for stage in data.stages):
        yield "## Watched"
        yield _watched(data.stages)


def _watched(stages: Sequence[StageCurve]) -> str:
    """Return a table of the first and the last evaluation; `report.json` has all."""
    rows = []
    for stage in stages:
        for watched in stage.watched:
            names = (escape(stage.name), escape(watched.encoder), escape(watched.evaluator))
            steps = f"{watched.steps[0]:,} to {watched.steps[-1]:,}"
            for index, score in enumerate(watched.scores):
                values = [look[index] for look in watched.values]
                places = score_digits(values)
                about = (score.task, score.metric, score.protocol_name)
                ends = (number(value, places) for value in (values[0], values[-1]))
                rows.append((*names, *map(escape, about), steps, *ends))
    heading = ("stage", "encoder", "evaluator", "task", "metric", "protocol", "steps", "first", "last")
    return markdown_table(heading, rows, numbers=(7, 8))


def _scores(tables: Sequence[ScoreTable]) -> str:
    tasks = tuple(dict.fromkeys(task for table in tables for task in table.tasks))
    rows = []
    for table in tables:
        for row in table.rows:
            cells = dict(zip(table.tasks, row.cells, strict=True))
            values = (cells.get(task) for task in tasks)
            rows.append(
                (
                    escape(row.encoder),
                    escape(table.evaluator),
                    escape(table.metric),
                    escape(table.protocol) or "–",
                    *(_cell(cell, table.digits) for cell in values),
                )
            )
    heading = ("encoder", "evaluator", "metric", "protocol", *map(escape, tasks))
    return markdown_table(heading, rows, numbers=range(4, len(heading)))


def _cell(cell: Cell | None, places: int) -> str:
    if cell is None:
        return "–"
    text = number(cell.value, places) + DEGENERATE * bool(cell.degenerate)
    return text if cell.interval is None else f"{text} ({spread(cell.interval, places)})"


def _differences(differences: Sequence[Difference]) -> str:
    heading = (
        "evaluator",
        "task",
        "metric",
        "protocol",
        "first",
        "second",
        "second − first",
        "interval",
        "p",
    )
    rows = []
    for one in differences:
        score, found = one.score, one.comparison
        names = (score.evaluator, score.task, score.metric, score.protocol_name, one.first, one.second)
        places = one.digits
        numbers = (signed(found.difference, places), spread((found.low, found.high), places))
        rows.append((*map(escape, names), *numbers, escape(chance(found.p_value))))
    return markdown_table(heading, rows, numbers=(6, 7, 8))


def _protocol(table: ScoreTable) -> str:
    entries = "; ".join(f"{escape(name)} = {escape(value)}" for name, value in table.common)
    text = f"{escape(table.evaluator)}, {escape(table.metric)}: {entries or 'not stated'}"
    if table.varying:
        text += f"; by task (see `report.json`): {', '.join(map(escape, table.varying))}"
    return text


def _best(validations: Sequence[tuple[int, float]], best_step: int | None) -> str:
    if best_step is None:
        return "–"
    value = dict(validations).get(best_step)
    return f"step {best_step:,}" if value is None else f"{number(value)} at step {best_step:,}"


def markdown_table(heading: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int]) -> str:
    """Return a table; the columns `numbers` are right-aligned."""
    right = set(numbers)
    rule = ["--:" if column in right else "---" for column in range(len(heading))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *rows))


def _fenced(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"
