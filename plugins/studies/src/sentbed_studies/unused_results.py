"""Finished runs and scores in a study's directory that the current recipe cannot use, and why.

The key of a run is the hash of everything that determines its weights; the key of an evaluation is the hash of
everything that determines its scores (`cell_keys.py`). What is hashed is called the content of the key. The
name of a run's directory ends with the key, and the file `keys.json` in it records keys and contents.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed.helpers import read_json
from sentbed.tools import code_differences, differences
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import (
    KEYS,
    UNREADABLE,
    evaluation_contents,
    made_evaluations,
)
from sentbed_report.study.read_study_directory import is_finished

from sentbed_studies.added_evaluations import RunState
from sentbed_studies.cell_keys import Content, EvaluationKey, directory_of
from sentbed_studies.shared_work_plan import Task

SHOWN = 6
"""Maximum number of differences that are listed per group of runs."""

UNKNOWN = "what determined these keys is not recorded"
"""Listed instead of differences if `keys.json` is damaged, or if an old version has recorded only the keys."""

OTHER_CONTENT = re.compile(r"'[0-9a-f]{64}' -> '[0-9a-f]{64}'")
"""Two different file hashes, as `differences` prints them."""

HASH = re.compile(r'"[0-9a-f]{64}"')
"""File hash in JSON."""


def run_state_lines(states: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield lines on runs in the directory `study`: those to evaluate, those to train again, and unused ones."""
    yield from _runs_without_evaluations(states)
    yield from _unused_scores(states, study)
    yield from _unused_runs(states, study)


def _runs_without_evaluations(states: Sequence[RunState]) -> Iterator[str]:
    """Yield how many finished runs lack evaluations, and how many of them must be trained again for these."""
    evaluated: Counter[str] = Counter()
    trained_again = 0
    missing: list[EvaluationKey] = []
    for state in states:
        if state.is_to_be_trained_again:
            trained_again += 1
            missing += state.missing
        elif state.missing:
            evaluated[_names(state.missing)] += 1

    for names, number in evaluated.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"

    if trained_again:
        yield (
            f"to be trained again (`--retrain`): {count(trained_again, 'finished run')}, which have kept no "
            f"encoder to evaluate with {_names(missing)}"
        )


def _names(evaluations: Iterable[EvaluationKey]) -> str:
    """Return the names of evaluators as text, without repetition."""
    names: dict[str, None] = {}
    for evaluation in evaluations:
        names[f"`{evaluation.entry.evaluator.name}`"] = None
    return ", ".join(names)


def _unused_scores(states: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield how many finished runs have scores that the current recipe does not use, and why."""
    runs_by_changes: Counter[tuple[str, ...]] = Counter()
    runs_of_removed_evaluations = 0
    for state in states:
        if not state.is_finished:
            continue
        directory = study / state.task.directory
        unused = set(made_evaluations(directory)) - set(state.task.evaluation_keys)
        if not unused:
            continue

        contents = evaluation_contents(directory)
        changes: set[str] = set()
        has_removed_evaluation = False
        for key in unused:
            if key not in contents:
                changes.add(UNKNOWN)
                continue
            changes_of_evaluation = _changes_of_evaluation(contents[key], state.task)
            if changes_of_evaluation is None:
                has_removed_evaluation = True
            else:
                changes.update(changes_of_evaluation)

        if changes:
            runs_by_changes[tuple(sorted(changes))] += 1
        if has_removed_evaluation:
            runs_of_removed_evaluations += 1

    for changes_of_runs, number in runs_by_changes.items():
        runs = count(number, "finished run")
        yield (
            f"left out: scores of {runs}, computed under other keys: {_listed(changes_of_runs)}; "
            "they stay on disk"
        )

    if runs_of_removed_evaluations:
        runs = count(runs_of_removed_evaluations, "finished run")
        yield (
            f"left out: scores of {runs} by evaluations that the recipe has no more; "
            "they stay on disk"
        )


def _changes_of_evaluation(before: Content, task: Task) -> list[str] | None:
    """Return what has changed since an evaluation with the content `before` was run.

    Return None if the recipe no longer has this evaluation.
    """
    try:
        for evaluation in task.evaluations:
            now = evaluation.content
            if _as_written(before) == _as_written(now):
                return content_differences(_as_content(before), _as_content(now))
    except (LookupError, TypeError):
        return [UNKNOWN]  # `keys.json` is damaged
    return None


def _as_written(content: Content) -> str:
    """Return the configuration in an evaluation's content as JSON, without the hashes of files."""
    return HASH.sub('""', json.dumps(content["evaluation"], sort_keys=True))


def _as_content(content: Content) -> Content:
    """Return an evaluation's content in the form of a run's content, for `content_differences`.

    The evaluator takes the place of the recipe.
    """
    return {
        "recipe": content["evaluation"]["fields"]["evaluator"],
        "more": [],
        "code": content["code"],
    }


def _unused_runs(states: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield how many cells must be run again although a run with another key has finished, and what differs."""
    cells_by_differences: Counter[tuple[str, ...]] = Counter()
    for state in states:
        if state.status is not None:
            # The run has begun.
            continue
        differences_from_runs = []
        for content in _contents_of_other_runs(state.task, study):
            of_run = content_differences(content, state.task.content)
            differences_from_runs.append(of_run)
        if differences_from_runs:
            fewest = min(differences_from_runs, key=_rank_of_differences)
            cells_by_differences[tuple(fewest)] += 1

    for differing, number in cells_by_differences.items():
        verb = "lies" if number == 1 else "lie"
        yield f"run again: {count(number, 'finished run')} {verb} under other keys: {_listed(differing)}"


def _rank_of_differences(differing: Sequence[str]) -> tuple[bool, int]:
    """Return a sort key of a run's differences: the fewest first, and unknown differences last."""
    return UNKNOWN in differing, len(differing)


def _listed(differing: Sequence[str]) -> str:
    """Return a text with the first `SHOWN` differences and the number of the others."""
    listed = "; ".join(differing[:SHOWN])
    if len(differing) > SHOWN:
        listed += f"; and {len(differing) - SHOWN} more"
    return listed


def _contents_of_other_runs(task: Task, study: Path) -> Iterator[Content]:
    """Yield the content of each finished run of the same cell, seed and prompt that has another key.

    The content is empty if the run's `keys.json` cannot be read.
    """
    expected = study / task.directory
    beginning = directory_of(task.cell.name, task.cell.seed, "", task.cell.prompt).name
    for run in sorted(expected.parent.glob(f"{beginning}*")):
        if run == expected or len(run.name) != len(expected.name):
            continue
        if not is_finished(run):
            continue
        try:
            content = read_json(run / KEYS)["content"]
            yield {
                "recipe": content["recipe"],
                "code": content["code"],
                "more": content["more"],
            }
        except UNREADABLE:
            yield {}


def content_differences(before: Content, after: Content) -> list[str]:
    """Return the differences between the contents of two runs, as lines for users."""
    try:
        lines = list(code_differences(before["code"], after["code"]))
        for part in ("recipe", "more"):
            for line in differences(_flat(before[part]), _flat(after[part])):
                lines.append(OTHER_CONTENT.sub("other content", line))
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        lines = []  # `keys.json` is damaged
    # If the contents are equal although the keys differ, one of the keys is damaged.
    return lines or [UNKNOWN]


def _flat(content: Any) -> Any:
    """Return a content nested as in the recipe, so that differences are listed by the recipe's keys.

    Such a key is `loss.temperature`. In each table, the entries of `fields` are moved up into the table, and
    `read` is renamed to `files`.
    """
    if isinstance(content, list):
        return [_flat(value) for value in content]

    if not isinstance(content, Mapping):
        return content

    table = {}
    for key, value in content.items():
        if key not in ("fields", "read"):
            table[key] = _flat(value)

    for key, value in content.get("fields", {}).items():
        table[key] = _flat(value)

    if content.get("read"):
        table["files"] = content["read"]
    return table
