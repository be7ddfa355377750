"""Reads the files that `results` of `[study.references]` name into rows for a study's tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from sentbed import locate
from sentbed.errors import (
    DataError,
    Problem,
    RecipeError,
    listed,
    printable,
    suggest,
)
from sentbed.tools import Document, KeyPath
from sentbed_report.formatting import count, first_names
from sentbed_report.study.published_number_config import Reference
from sentbed_report.study.published_scores import PublishedScore, PublishedSystem

if TYPE_CHECKING:
    from sentbed_audit.score_rows import ScoreRow

OURS = "sentbed"
"""Layout of the scores of our own runs and studies."""

_SHARES = ("mteb 1.0", "mteb 1.11", "lm-eval")
"""Layouts whose scores are between 0 and 1."""

MOST_LEFT_OUT = 3
"""Maximum number of omitted scores that are named with a reason; the others are counted."""

_UNNAMED = ("main_score", "score")
"""Names of a metric that do not say which metric it is."""


def read_published(
    references: Mapping[str, Reference], document: Document
) -> tuple[PublishedSystem, ...]:
    """Return the models that the references name, with scores in the unit of our own.

    Raises:
        RecipeError: with all wrong paths, models and tasks.
    """
    systems: list[PublishedSystem] = []
    problems: list[Problem] = []
    for name, reference in references.items():
        if reference.results is None:
            continue
        place = ("study", "references", name)
        try:
            systems += _systems(name, reference, document, place)
        except RecipeError as error:
            problems += error.problems

    if problems:
        raise RecipeError(problems)
    return tuple(systems)


def _systems(
    name: str, reference: Reference, document: Document, place: KeyPath
) -> list[PublishedSystem]:
    """Return one row per model of a reference with `results`. Raises `RecipeError`."""
    # Imported only here: it imports more than a recipe without results needs.
    from sentbed_audit.read_results import read_results

    assert reference.results is not None, "checked by the caller"
    try:
        path = locate(reference.results)
        results = read_results([path])
    except DataError as error:
        problem = document.problem(str(error), (*place, "results"))
        raise RecipeError([problem]) from error

    notes = []
    unreadable = results.unreadable
    if unreadable:
        notes.append(
            f"{count(len(unreadable), 'file')} of {path.name} cannot be read: "
            f"{unreadable[0].file}: {unreadable[0].reason}."
        )
    by_model = _rows_by_model(results.rows)
    chosen = _chosen(by_model, reference, document, place)
    problems = list(_faults(chosen, reference, document, place))
    if problems:
        raise RecipeError(problems)

    revisions = Counter(model for model, _ in chosen)
    systems = []
    for (model, revision), rows in chosen.items():
        row_name = name
        if len(chosen) > 1:
            row_name = f"{name}: {model}"
        if revisions[model] > 1:
            row_name += f"@{revision[:12] or 'unknown'}"
        scores, left_out = _scores(rows, reference)
        sentences = left_out[:MOST_LEFT_OUT]
        if len(left_out) > MOST_LEFT_OUT:
            others = count(len(left_out) - MOST_LEFT_OUT, "more score")
            sentences.append(f"{others} left out.")
        notes_of_row = [*notes, *(f"{row_name}: {text}" for text in sentences)]
        system = PublishedSystem(
            row_name,
            model,
            revision,
            reference.source or path.name,
            tuple(scores),
            # File names may contain control characters.
            tuple(map(printable, notes_of_row)),
        )
        systems.append(system)
    return systems


def _rows_by_model(
    rows: Sequence[ScoreRow],
) -> dict[tuple[str, str], list[ScoreRow]]:
    """Return the scores of each model and revision."""
    by_model: dict[tuple[str, str], list[ScoreRow]] = {}
    for row in rows:
        by_model.setdefault((row.model, row.revision), []).append(row)
    return by_model


def _chosen(
    by_model: Mapping[tuple[str, str], list[ScoreRow]],
    reference: Reference,
    document: Document,
    place: KeyPath,
) -> dict[tuple[str, str], list[ScoreRow]]:
    """Return the scores of the models that a reference names, in the order of the reference.

    Raises:
        RecipeError: if there are no results of a model, or several models and the reference names none.
    """
    names = list(dict.fromkeys(model for model, _ in by_model))
    if not reference.models and len(names) > 1:
        message = (
            f"there are results of {len(names)} models, and a row is one: {first_names(names)}; choose with "
            "`models = [...]`"
        )
        raise RecipeError([document.problem(message, (*place, "results"))])

    chosen: dict[tuple[str, str], list[ScoreRow]] = {}
    problems = []
    for number, written in enumerate(reference.models or names):
        model, _, beginning = written.rpartition("@")
        if written in names:
            model, beginning = written, ""
        revisions = []
        fitting = {}
        for key, rows in by_model.items():
            if key[0] != model:
                continue
            revisions.append(key[1])
            if key[1].startswith(beginning):
                fitting[key] = rows
        chosen |= fitting
        if fitting:
            continue
        message = (
            f"there are no results of a model `{written}`.{suggest(written, names)}"
        )
        if revisions:
            message = (
                f"`{model}` has no revision that begins with `{beginning}`; choose among "
                f"{listed(revisions)}"
            )
        problems.append(document.problem(message, (*place, "models", number)))

    if problems:
        raise RecipeError(problems)
    return chosen


def _faults(
    chosen: Mapping[tuple[str, str], Sequence[ScoreRow]],
    reference: Reference,
    document: Document,
    place: KeyPath,
) -> Iterator[Problem]:
    """Yield a problem for each task without results, and for a unit that is missing or not allowed."""
    splits: dict[str, set[str]] = {}
    layouts = set()
    for row in chain.from_iterable(chosen.values()):
        splits.setdefault(row.task, set()).add(row.split)
        layouts.add(row.layout)

    for task, name in reference.tasks.items():
        place_of_task = (*place, "tasks", task)
        if task not in splits:
            message = f"there are no results of a task `{task}`.{suggest(task, sorted(splits))}"
            yield document.problem(message, place_of_task)
        elif "@" in name and len(splits[task]) > 1:
            message = (
                f"`{task}` has results on the splits {listed(sorted(splits[task]))}, and `@` renames one; "
                "take it out"
            )
            yield document.problem(message, place_of_task)

    if "table" in layouts and reference.unit is None:
        message = (
            'a CSV does not say what its scores are; set `unit = "share"` where they are shares of 1, or '
            '`unit = "per cent"`'
        )
        yield document.problem(message, (*place, "results"))
    if OURS in layouts and reference.unit is not None:
        message = "the unit of our own scores is known; take `unit` out"
        yield document.problem(message, (*place, "unit"))


def _scores(
    rows: Sequence[ScoreRow], reference: Reference
) -> tuple[list[PublishedScore], list[str]]:
    """Return the scores of a model in the unit of our own, and sentences on the scores that are left out.

    Several rows of one score, such as of several seeds, are averaged.
    """
    by_score: dict[tuple[str, ...], list[ScoreRow]] = {}
    left_out = []
    for row in rows:
        where = f"{row.task} ({row.split}) in {row.file}"
        if not math.isfinite(row.score):
            left_out.append(f"{where} is left out: its score is no finite number.")
        elif _is_share(row, reference) and abs(row.score) > 1:
            left_out.append(
                f"{where} is left out: its score is {row.score:g}, expected a share of 1."
            )
        else:
            key = (row.task, row.split, row.subset, row.metric)
            by_score.setdefault(key, []).append(row)

    scores = []
    for of_score in by_score.values():
        first = of_score[0]
        values = [row.score for row in of_score]
        if first.layout in _SHARES and len(set(values)) > 1:
            files = first_names([row.file for row in of_score])
            left_out.append(
                f"{first.task} ({first.split}) is left out: its files have different scores, {files}."
            )
            continue
        value = sum(values) / len(values)
        if _is_share(first, reference):
            value *= 100
        scores.append(_published(first, value, reference))
    return scores, left_out


def _is_share(row: ScoreRow, reference: Reference) -> bool:
    """Whether a score is between 0 and 1, and not in per cent."""
    if reference.unit is None:
        return row.layout in _SHARES
    return reference.unit == "share"


def _published(row: ScoreRow, value: float, reference: Reference) -> PublishedScore:
    """Return the score of a row with the names that the reference gives its task and split."""
    metrics = [row.metric]
    if row.metric in _UNNAMED:
        metrics = row.metric_names.split()
    task, _, split = reference.tasks.get(row.task, row.task).partition("@")
    return PublishedScore(
        task,
        tuple(metrics),
        split or row.split,
        row.subset,
        value,
        row.software,
        row.data_revision,
        row.layout == OURS,
    )
