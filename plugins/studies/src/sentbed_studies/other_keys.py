"""Runs of a study that lie in its directory and are not those of its recipe as it is now, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed.errors import DataError
from sentbed.helpers import read_json
from sentbed.tools import code_differences, differences
from sentbed_report.formatting import count
from sentbed_report.study.read_cell_run import KEYS, evaluation_contents, made_evaluations, manifest_status
from sentbed_report.study.read_study_directory import is_finished

from sentbed_studies.added_evaluations import without_encoder
from sentbed_studies.cell_keys import Content, directory_of
from sentbed_studies.shared_work_plan import Task, Work

SHOWN = 6
"""Differences that are listed of a group of runs."""

OTHER_CONTENT = re.compile(r"'[0-9a-f]{64}' -> '[0-9a-f]{64}'")
"""How two hashes of files are shown by `differences`."""


HASH = re.compile(r'"[0-9a-f]{64}"')
"""Hash of a file in JSON."""


def kept_lines(work: Work, study: Path) -> Iterator[str]:
    """Yield what becomes of the runs that a study's directory holds: what is added, trained again, unused."""
    yield from _added(work, study)
    yield from _left_out(work, study)
    yield from _under_other_keys(work, study)


def _added(work: Work, study: Path) -> Iterator[str]:
    lost = without_encoder(study, work)
    groups: dict[tuple[str, ...], int] = {}
    for task in work.tasks:
        if task in lost or not is_finished(study / task.directory):
            continue
        missing = tuple(dict.fromkeys(_name(evaluation.entry) for evaluation in task.missing(study)))
        if missing:
            groups[missing] = groups.get(missing, 0) + 1
    for missing, runs in groups.items():
        yield f"evaluated, not trained again: {count(runs, 'finished run')}, with {', '.join(missing)}"
    if lost:
        names: dict[str, None] = {}
        for task in lost:
            names |= dict.fromkeys(_name(evaluation.entry) for evaluation in task.missing(study))
        yield (
            f"to be trained again (`--retrain`): {count(len(lost), 'finished run')}, which have kept no "
            f"encoder to evaluate with {', '.join(names)}"
        )


def _name(entry: Any) -> str:
    return f"`{entry.with_.name}`"


def _left_out(work: Work, study: Path) -> Iterator[str]:
    """Yield how many finished runs have scores that are not the study's as it is now, and why."""
    groups: dict[tuple[str, ...], int] = {}
    dropped = unknown = 0
    for task in work.tasks:
        run = study / task.directory
        if not is_finished(run):
            continue
        unused = set(made_evaluations(run)) - set(task.evaluation_keys)
        if not unused:
            continue
        contents = evaluation_contents(run)
        reasons: dict[str, None] = {}
        has_dropped = False
        for key in sorted(unused & contents.keys()):
            changes = _changes_of_evaluation(contents[key], task)
            reasons |= dict.fromkeys(changes)
            has_dropped |= not changes
        unknown += not unused <= contents.keys()
        if reasons:
            changed = tuple(sorted(reasons))
            groups[changed] = groups.get(changed, 0) + 1
        dropped += has_dropped
    for changed, runs in groups.items():
        yield (
            f"left out: scores of {count(runs, 'finished run')}, computed under other keys: "
            f"{_listed(changed)}; they stay on disk"
        )
    if unknown:
        yield (
            f"left out: scores of {count(unknown, 'finished run')} by evaluations of which nothing says "
            "whether they are still the recipe's; they stay on disk"
        )
    if dropped:
        yield (
            f"left out: scores of {count(dropped, 'finished run')} by evaluations that the recipe has no "
            "more; they stay on disk"
        )


def _changes_of_evaluation(before: Content, task: Task) -> list[str]:
    """Return what differs of an evaluation that the recipe still has; nothing if it has it no more."""
    try:
        for evaluation in task.evaluations:
            now = evaluation.content
            if _as_written(before) == _as_written(now):
                return list(content_differences(_as_content(before), _as_content(now)))
    except (LookupError, TypeError):
        pass  # `keys.json` is damaged
    return []


def _as_written(evaluation: Content) -> str:
    """Return an evaluation as the recipe has it, without the hashes of what it reads."""
    return HASH.sub('""', json.dumps(evaluation["evaluation"], sort_keys=True))


def _as_content(evaluation: Content) -> Content:
    # The fields of the evaluator alone: differences begin with the name of a field.
    return {"recipe": evaluation["evaluation"]["fields"]["with_"], "more": [], "code": evaluation["code"]}


def _under_other_keys(work: Work, study: Path) -> Iterator[str]:
    """Yield how many finished runs cannot serve, and what differs, by what differs."""
    groups: dict[tuple[str, ...], int] = {}
    for task in work.tasks:
        if manifest_status(study / task.directory) is not None:
            continue
        reasons = [tuple(content_differences(other, task.content)) for other in _others(task, study)]
        if reasons:
            # Of several, the one that differs least.
            nearest = min(reasons, key=len)
            groups[nearest] = groups.get(nearest, 0) + 1
    for differing, runs in groups.items():
        which = "lies" if runs == 1 else "lie"
        yield f"run again: {count(runs, 'finished run')} {which} under other keys: {_listed(differing)}"


def _listed(differing: Sequence[str]) -> str:
    listed = "; ".join(differing[:SHOWN])
    return f"{listed}; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else listed


def _others(task: Task, study: Path) -> Iterator[Content]:
    """Yield what decided the finished runs of the same cell and seed that have other keys."""
    own = study / task.directory
    pattern = directory_of(task.cell.name, task.cell.seed, "").name
    for run in sorted(own.parent.glob(f"{pattern}*")):
        if run == own or len(run.name) != len(own.name) or not is_finished(run):
            continue
        try:
            content = read_json(run / KEYS)["content"]
            yield {"recipe": content["recipe"], "code": content["code"], "more": content["more"]}
        except (OSError, ValueError, KeyError, TypeError, DataError):
            yield {}


def content_differences(before: Content, after: Content) -> Iterator[str]:
    """Yield in what two contents of keys differ, as lines for users."""
    try:
        found = list(code_differences(before["code"], after["code"]))
        for part in ("recipe", "more"):
            lines = differences(_flat(before[part]), _flat(after[part]))
            found += [OTHER_CONTENT.sub("other content", line) for line in lines]
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        found = []  # `keys.json` is damaged
    # Two that are equal have different keys, of which one is damaged.
    yield from found or ["nothing says what decided them"]


def _flat(content: Any) -> Any:
    """Return a content with the fields of a table in the place of its table."""
    if isinstance(content, Mapping):
        table = {key: _flat(value) for key, value in content.items() if key not in ("fields", "read")}
        table |= {key: _flat(value) for key, value in content.get("fields", {}).items()}
        if content.get("read"):
            table["files"] = content["read"]
        return table
    if isinstance(content, list):
        return [_flat(value) for value in content]
    return content
