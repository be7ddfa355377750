"""Finished runs and scores in a study's directory that the current recipe cannot use, and why.

A key is the hash of a content: all that decides a run's weights, or a score (`cell_keys.py`). The key of a run
ends the name of its directory.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed.errors import DataError
from sentbed.helpers import read_json
from sentbed.tools import code_differences, differences
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import (
    KEYS,
    evaluation_contents,
    made_evaluations,
)
from sentbed_report.study.read_study_directory import is_finished

from sentbed_studies.added_evaluations import RunState
from sentbed_studies.cell_keys import Content, EvaluationKey, directory_of
from sentbed_studies.shared_work_plan import Task

SHOWN = 6
"""Maximum number of differences that are listed per group of runs."""

UNKNOWN = "nothing says what decided them"
"""Reason for runs whose `keys.json` is damaged, or was written by a version that recorded only the keys."""

OTHER_CONTENT = re.compile(r"'[0-9a-f]{64}' -> '[0-9a-f]{64}'")
"""Two different file hashes, as `differences` prints them."""


HASH = re.compile(r'"[0-9a-f]{64}"')
"""File hash in JSON."""


def run_state_lines(runs: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield lines on the runs in a study's directory: which are evaluated, trained again, or not used."""
    yield from _added(runs)
    yield from _left_out(runs, study)
    yield from _under_other_keys(runs, study)


def _added(runs: Sequence[RunState]) -> Iterator[str]:
    """Yield how many finished runs lack evaluations, and whether they must be trained again for these."""
    added: Counter[str] = Counter()
    trained_again = 0
    missing: list[EvaluationKey] = []
    for run in runs:
        if run.is_to_be_trained_again:
            trained_again += 1
            missing += run.missing
        elif run.missing:
            added[_names(run.missing)] += 1

    for names, number in added.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"

    if trained_again:
        yield (
            f"to be trained again (`--retrain`): {count(trained_again, 'finished run')}, which have kept no "
            f"encoder to evaluate with {_names(missing)}"
        )


def _names(evaluations: Iterable[EvaluationKey]) -> str:
    names = dict.fromkeys(
        f"`{evaluation.entry.evaluator.name}`" for evaluation in evaluations
    )
    return ", ".join(names)


def _left_out(runs: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield how many finished runs have scores that the current recipe does not use, and why."""
    changed: Counter[tuple[str, ...]] = Counter()
    dropped = 0
    for run in runs:
        if not run.is_finished:
            continue
        directory = study / run.task.directory
        unused = set(made_evaluations(directory)) - set(run.task.evaluation_keys)
        if not unused:
            continue
        contents = evaluation_contents(directory)

        changes: set[str] = set()
        has_dropped = False
        for key in unused:
            if key not in contents:
                changes.add(UNKNOWN)
                continue
            changes_of_evaluation = _changes_of_evaluation(contents[key], run.task)
            if changes_of_evaluation is None:
                has_dropped = True
            else:
                changes.update(changes_of_evaluation)

        if changes:
            changed[tuple(sorted(changes))] += 1
        dropped += has_dropped

    for differing, number in changed.items():
        runs_of_scores = count(number, "finished run")
        yield (
            f"left out: scores of {runs_of_scores}, computed under other keys: {_listed(differing)}; "
            "they stay on disk"
        )

    if dropped:
        runs_of_scores = count(dropped, "finished run")
        yield (
            f"left out: scores of {runs_of_scores} by evaluations that the recipe has no more; "
            "they stay on disk"
        )


def _changes_of_evaluation(before: Content, task: Task) -> list[str] | None:
    """Return the differences from the same evaluation in the recipe; None if the recipe no longer has it."""
    try:
        for evaluation in task.evaluations:
            now = evaluation.content
            if _as_written(before) == _as_written(now):
                return content_differences(_as_content(before), _as_content(now))
    except (LookupError, TypeError):
        return [UNKNOWN]  # `keys.json` is damaged
    return None


def _as_written(evaluation: Content) -> str:
    """Return an evaluation as JSON without the hashes of the files that it reads."""
    return HASH.sub('""', json.dumps(evaluation["evaluation"], sort_keys=True))


def _as_content(evaluation: Content) -> Content:
    """Return an evaluation's content with the keys of a run's, for `content_differences`.

    The evaluator takes the place of the recipe.
    """
    return {
        "recipe": evaluation["evaluation"]["fields"]["evaluator"],
        "more": [],
        "code": evaluation["code"],
    }


def _under_other_keys(runs: Sequence[RunState], study: Path) -> Iterator[str]:
    """Yield how many cells have a finished run with another key, grouped by the differences."""
    groups: Counter[tuple[str, ...]] = Counter()
    for run in runs:
        if run.status is not None:
            continue
        candidates = []
        for content in _contents_under_other_keys(run.task, study):
            candidates.append(content_differences(content, run.task.content))
        if candidates:
            fewest = min(candidates, key=len)
            groups[tuple(fewest)] += 1

    for differing, number in groups.items():
        which = "lies" if number == 1 else "lie"
        yield f"run again: {count(number, 'finished run')} {which} under other keys: {_listed(differing)}"


def _listed(differing: Sequence[str]) -> str:
    listed = "; ".join(differing[:SHOWN])
    if len(differing) > SHOWN:
        listed += f"; and {len(differing) - SHOWN} more"
    return listed


def _contents_under_other_keys(task: Task, study: Path) -> Iterator[Content]:
    """Yield what `keys.json` records of each finished run of the same cell and seed that has another key.

    A file that cannot be read gives an empty content.
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
        except (OSError, ValueError, KeyError, TypeError, DataError):
            yield {}


def content_differences(before: Content, after: Content) -> list[str]:
    """Return the differences between two contents, as lines for users."""
    try:
        lines = list(code_differences(before["code"], after["code"]))
        for part in ("recipe", "more"):
            of_part = differences(_flat(before[part]), _flat(after[part]))
            lines += [OTHER_CONTENT.sub("other content", line) for line in of_part]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        lines = []  # `keys.json` is damaged
    # If equal contents have different keys, one of the keys is damaged.
    return lines or [UNKNOWN]


def _flat(content: Any) -> Any:
    """Return a content with each table's `fields` moved up into the table, and its `read` renamed to `files`."""
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
