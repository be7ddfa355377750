"""Which cell of which study computes a number of the papers' tables, or why none does."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any, NamedTuple

from paper_studies import PAPERS, ROOT, study
from sentbed_evaluators import (
    glue_files,
    sentbench,
    senteval_sts_files,
    sts,
    transfer,
    transfer_files,
)
from sentbed_evaluators.sentbench import SentBench
from sentbed_evaluators.sentglue import SentGLUE
from sentbed_evaluators.sts import SentEvalSTS

COVERAGE: dict[str, dict[str, dict[str, Any]]] = tomllib.loads(
    (ROOT / "tests" / "papers" / "coverage.toml").read_text("utf-8")
)
"""Paper -> table -> its columns, which numbers it lacks or prints again, and how many numbers there are."""


class Place(NamedTuple):
    """The score of a study's cell that a printed number is compared with."""

    study: str
    """`PAPER/FILE`, below `recipes/papers` and without suffix."""
    cell: str
    key: str
    """The score, as a key of `[expected]`."""


class Printed(NamedTuple):
    """One number of a paper's table."""

    row: str
    column: str
    before: str
    """The column before it: a table may have two averages."""


@cache
def mapping(paper):
    """Return what the recipes of a paper call its rows and columns; see tools/published.py."""
    return tomllib.loads((PAPERS / paper / "published.toml").read_text("utf-8"))


def rows(paper, table):
    """Yield every row of a table, wherever its numbers are computed."""
    entry = mapping(paper)[table]
    for places in (entry, *entry.get("studies", {}).values()):
        yield from places.get("rows", {})
    yield from entry.get("elsewhere", {})
    yield from entry.get("left_out", {})


def printed(paper, table):
    """Yield every number of a table, as often as the paper prints it."""
    facts = COVERAGE[paper][table]
    columns = facts["columns"]
    for row in rows(paper, table):
        for before, column in zip(("", *columns), columns, strict=False):
            if column not in facts.get("absent", {}).get(row, ()):
                for _ in range(2 if row in facts.get("again", ()) else 1):
                    yield Printed(row, column, before)


def resolve(paper, table, number):
    """Return the score that a number is compared with, or the reason why there is none.

    Raises `KeyError` if the mapping has neither.
    """
    names, entry = mapping(paper), mapping(paper)[table]
    if number.row in entry.get("left_out", {}):
        return str(entry["left_out"][number.row])
    left_out = {
        **names.get("left_out_columns", {}),
        **entry.get("left_out_columns", {}),
    }
    columns = {**names["columns"], **entry.get("columns", {})}
    if number.column in left_out and number.column not in entry.get("columns", {}):
        return str(left_out[number.column])
    key = columns[number.column]
    key = key if isinstance(key, str) else key[number.before]
    if number.row in entry.get("elsewhere", {}):
        name, _, cell = entry["elsewhere"][number.row].partition(": ")
        return Place(name, cell, key)
    for file, places in {table: entry, **entry.get("studies", {})}.items():
        if number.row in places.get("rows", {}):
            return Place(f"{paper}/{file}", places["rows"][number.row], key)
    raise KeyError(number.row)


@cache
def offer(name, cell):
    """Return the scores of a cell, as keys of `[expected]`; a key twice if two evaluators give it.

    Raises `StopIteration` if the study has no such cell.
    """
    recipe = next(
        study_cell.recipe for study_cell in study(name).runs if study_cell.name == cell
    )
    offered = [keys(evaluate.evaluator) for evaluate in recipe.evaluate]
    return tuple(key for scores in offered for key, listed in scores.items() if listed)


def keys(evaluator):
    """Return the scores that an evaluator has -> whether its list of tasks gives them.

    An average is given where all tasks of the papers are. That of STS tasks is made by the report.
    """
    if isinstance(evaluator, SentEvalSTS):
        return _of(
            evaluator.tasks, senteval_sts_files.TASKS, SentEvalSTS().tasks, "spearman"
        )
    if isinstance(evaluator, transfer.SentEvalTransfer):
        return _of(
            evaluator.tasks, tuple(transfer_files.TRANSFER), transfer.PAPERS, "accuracy"
        )
    if isinstance(evaluator, SentGLUE):
        return _of(
            evaluator.tasks, tuple(glue_files.TASKS), tuple(glue_files.TASKS), "mean"
        )
    if isinstance(evaluator, SentBench):
        (paradigm,) = evaluator.paradigms
        every = sentbench.TASKS[paradigm]
        metric = "contrast-accuracy" if paradigm == "contrast" else "accuracy"
        tasks = every if evaluator.tasks is None else evaluator.tasks
        # Its tables have no other average, and call it by the task alone.
        return {**_of(tasks, every, every, metric), "AVG": set(every) <= set(tasks)}
    if isinstance(evaluator, sts.STS) and evaluator.task is not None:
        return {evaluator.task: True}
    return {}


def _of(tasks, every_task, all_, metric):
    complete = (
        set(all_) == set(tasks) if metric == "spearman" else set(all_) <= set(tasks)
    )
    return {**{task: task in tasks for task in every_task}, f"AVG/{metric}": complete}
