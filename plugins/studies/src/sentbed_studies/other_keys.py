"""Runs of a study that lie in its directory and are not those of its recipe as it is now, and why."""

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

from sentbed_studies.added_evaluations import KeptRun
from sentbed_studies.cell_keys import Content, EvaluationKey, directory_of
from sentbed_studies.shared_work_plan import Task

SHOWN = 6
"""Differences that are listed of a group of runs."""

UNKNOWN = "nothing says what decided them"
"""Difference of runs whose `keys.json` is damaged, or of a version that did not have it."""

OTHER_CONTENT = re.compile(r"'[0-9a-f]{64}' -> '[0-9a-f]{64}'")
"""How two hashes of files are shown by `differences`."""


HASH = re.compile(r'"[0-9a-f]{64}"')
"""Hash of a file in JSON."""


def kept_lines(runs: Sequence[KeptRun], study: Path) -> Iterator[str]:
    """Yield what becomes of the runs that a study's directory holds: what is added, trained again, unused."""
    yield from _added(runs)
    yield from _left_out(runs, study)
    yield from _under_other_keys(runs, study)


def _added(runs: Sequence[KeptRun]) -> Iterator[str]:
    added: Counter[str] = Counter()
    trained_again = []
    for run in runs:
        if run.is_to_be_trained_again:
            trained_again.append(run)
        elif run.missing:
            added[_names(run.missing)] += 1

    for names, number in added.items():
        yield f"evaluated, not trained again: {count(number, 'finished run')}, with {names}"
    if trained_again:
        number = len(trained_again)
        names = _names(
            evaluation for run in trained_again for evaluation in run.missing
        )
        yield (
            f"to be trained again (`--retrain`): {count(number, 'finished run')}, which have kept no encoder "
            f"to evaluate with {names}"
        )


def _names(evaluations: Iterable[EvaluationKey]) -> str:
    names = dict.fromkeys(
        f"`{evaluation.entry.evaluator.name}`" for evaluation in evaluations
    )
    return ", ".join(names)


def _left_out(runs: Sequence[KeptRun], study: Path) -> Iterator[str]:
    """Yield how many finished runs have scores that are not the study's as it is now, and why."""
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
            changes_of_evaluation = [UNKNOWN]
            if key in contents:
                changes_of_evaluation = _changes_of_evaluation(contents[key], run.task)
            changes.update(changes_of_evaluation)
            has_dropped |= not changes_of_evaluation

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


def _changes_of_evaluation(before: Content, task: Task) -> list[str]:
    """Return what differs of an evaluation that the recipe still has; nothing if it has it no more."""
    try:
        for evaluation in task.evaluations:
            now = evaluation.content
            if _as_written(before) == _as_written(now):
                return content_differences(_as_content(before), _as_content(now))
    except (LookupError, TypeError):
        pass  # `keys.json` is damaged
    return []


def _as_written(evaluation: Content) -> str:
    """Return an evaluation as the recipe has it, without the hashes of what it reads."""
    return HASH.sub('""', json.dumps(evaluation["evaluation"], sort_keys=True))


def _as_content(evaluation: Content) -> Content:
    # The fields of the evaluator alone: differences begin with the name of a field.
    return {
        "recipe": evaluation["evaluation"]["fields"]["evaluator"],
        "more": [],
        "code": evaluation["code"],
    }


def _under_other_keys(runs: Sequence[KeptRun], study: Path) -> Iterator[str]:
    """Yield how many finished runs cannot serve, and what differs, by what differs."""
    groups: Counter[tuple[str, ...]] = Counter()
    for run in runs:
        if run.status is not None:
            continue
        now = run.task.content
        reasons = [
            content_differences(other, now)
            for other in _contents_under_other_keys(run.task, study)
        ]
        if reasons:
            # Of several, the one that differs least.
            nearest = min(reasons, key=len)
            groups[tuple(nearest)] += 1

    for differing, number in groups.items():
        which = "lies" if number == 1 else "lie"
        yield f"run again: {count(number, 'finished run')} {which} under other keys: {_listed(differing)}"


def _listed(differing: Sequence[str]) -> str:
    listed = "; ".join(differing[:SHOWN])
    if len(differing) > SHOWN:
        listed += f"; and {len(differing) - SHOWN} more"
    return listed


def _contents_under_other_keys(task: Task, study: Path) -> Iterator[Content]:
    """Yield what decided the finished runs of the same cell and seed that have other keys."""
    expected = study / task.directory
    beginning = directory_of(task.cell.name, task.cell.seed, "", task.cell.prompt).name
    for run in sorted(expected.parent.glob(f"{beginning}*")):
        if (
            run == expected
            or len(run.name) != len(expected.name)
            or not is_finished(run)
        ):
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
    """Return in what two contents of keys differ, as lines for users."""
    try:
        lines = list(code_differences(before["code"], after["code"]))
        for part in ("recipe", "more"):
            of_part = differences(_flat(before[part]), _flat(after[part]))
            lines += [OTHER_CONTENT.sub("other content", line) for line in of_part]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        lines = []  # `keys.json` is damaged
    # Two that are equal have different keys, of which one is damaged.
    return lines or [UNKNOWN]


def _flat(content: Any) -> Any:
    """Return a content with the fields of a table in the place of its table."""
    if isinstance(content, list):
        return [_flat(value) for value in content]
    if not isinstance(content, Mapping):
        return content

    table = {
        key: _flat(value)
        for key, value in content.items()
        if key not in ("fields", "read")
    }
    table |= {key: _flat(value) for key, value in content.get("fields", {}).items()}
    if content.get("read"):
        table["files"] = content["read"]
    return table
