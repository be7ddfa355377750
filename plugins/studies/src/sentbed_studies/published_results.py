"""Published results of other systems: reads the files that `results` of `[study.references]` names.

The scores become rows of the study's tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

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
"""Layout (`ScoreRow.layout`) of results of sentbed's runs and studies."""

_SHARES = ("mteb 1.0", "mteb 1.11", "lm-eval")
"""Layouts whose scores are between 0 and 1."""

MOST_NOTES = 3
"""Of the scores that a row leaves out, its notes name at most this many, with the reason.

Of the others, the notes have only the number.
"""

_UNNAMED = ("main_score", "score")
"""Names under which a file stores a score without saying which metric it is."""

_Model: TypeAlias = tuple[str, str]
"""Name and revision of a model."""


def read_published(
    references: Mapping[str, Reference], document: Document
) -> tuple[PublishedSystem, ...]:
    """Return the models of all references that have `results`, with scores in the unit of sentbed's scores.

    Raises:
        RecipeError: with all problems of the references: paths, models, tasks and units.
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
    name: str,
    reference: Reference,
    document: Document,
    place: KeyPath,
) -> list[PublishedSystem]:
    """Return a system for each model of a reference with `results`.

    `name` is the name of the reference; `place` is its key path in the document.

    Raises:
        RecipeError: with all problems of the reference.
    """
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
        notes_of_row = list(notes)
        for sentence in left_out[:MOST_NOTES]:
            notes_of_row.append(f"{row_name}: {sentence}")
        if len(left_out) > MOST_NOTES:
            others = count(len(left_out) - MOST_NOTES, "more score")
            notes_of_row.append(f"{row_name}: {others} left out.")

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


def _rows_by_model(rows: Sequence[ScoreRow]) -> dict[_Model, list[ScoreRow]]:
    """Return the scores of each model."""
    by_model: dict[_Model, list[ScoreRow]] = {}
    for row in rows:
        by_model.setdefault((row.model, row.revision), []).append(row)
    return by_model


def _chosen(
    by_model: Mapping[_Model, list[ScoreRow]],
    reference: Reference,
    document: Document,
    place: KeyPath,
) -> dict[_Model, list[ScoreRow]]:
    """Return the scores of the models that a reference names (`MODEL` or `MODEL@REVISION`), in its order.

    A reference that names no model must have results of only one model.

    Raises:
        RecipeError: if a named model has no results, or if the reference names none and there are several.
    """
    names = list(dict.fromkeys(model for model, _ in by_model))
    if not reference.models and len(names) > 1:
        message = (
            f"there are results of {len(names)} models, and a row is one: {first_names(names)}; choose with "
            "`models = [...]`"
        )
        raise RecipeError([document.problem(message, (*place, "results"))])

    chosen: dict[_Model, list[ScoreRow]] = {}
    problems = []
    for number, written in enumerate(reference.models or names):
        name, _, beginning = written.rpartition("@")
        if written in names:
            # The name of a model may contain an `@`.
            name, beginning = written, ""

        revisions = []
        fitting = {}
        for model, rows in by_model.items():
            if model[0] != name:
                continue
            revisions.append(model[1])
            if model[1].startswith(beginning):
                fitting[model] = rows

        chosen |= fitting
        if fitting:
            continue

        message = (
            f"there are no results of a model `{written}`.{suggest(written, names)}"
        )
        if revisions:
            message = (
                f"`{name}` has no revision that begins with `{beginning}`; choose among "
                f"{listed(revisions)}"
            )
        problems.append(document.problem(message, (*place, "models", number)))

    if problems:
        raise RecipeError(problems)
    return chosen


def _faults(
    chosen: Mapping[_Model, Sequence[ScoreRow]],
    reference: Reference,
    document: Document,
    place: KeyPath,
) -> Iterator[Problem]:
    """Check `tasks` and `unit` of a reference against the scores of its `chosen` models; yield the problems."""
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
    """Return the scores of a model in the unit of sentbed's scores, and a sentence for each omitted score.

    Several rows of the same score, such as those of several seeds, are averaged.
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
        values = [_per_cent(row, reference) for row in of_score]
        # The results in these layouts have no seeds: different scores are no repetitions to average.
        without_seeds = any(row.layout in _SHARES for row in of_score)
        if without_seeds and len(set(values)) > 1:
            files = first_names([row.file for row in of_score])
            left_out.append(
                f"{first.task} ({first.split}) is left out: its files have different scores, {files}."
            )
            continue
        value = sum(values) / len(values)
        scores.append(_published(first, value, reference))
    return scores, left_out


def _per_cent(row: ScoreRow, reference: Reference) -> float:
    """Return the score of a row in per cent."""
    if _is_share(row, reference):
        return 100 * row.score
    return row.score


def _is_share(row: ScoreRow, reference: Reference) -> bool:
    """Whether a score is a share of 1, and not in per cent."""
    if reference.unit is None:
        return row.layout in _SHARES
    return reference.unit == "share"


def _published(
    row: ScoreRow,
    value: float,
    reference: Reference,
) -> PublishedScore:
    """Return the score of a row, with its task and split as `reference.tasks` renames them."""
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
