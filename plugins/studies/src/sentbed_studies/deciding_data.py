"""Checks, before a study is run, whether its evaluators can give scores that decide between its cells.

Cells are compared by scores on development data, or on test data if `[study.decide]` allows it. An
evaluator may say that it scores on development data. If it does not, its data may be unknown until the
protocols of its scores are read after the run. A study is refused only if its scores certainly cannot decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
from sentbed.errors import Problem, suggest
from sentbed.protocols import Evaluator
from sentbed.tools import Document
from sentbed_report.study.deciding_score import Decide
from sentbed_report.tables.column import AVERAGE

_DEVELOPMENT: tuple[dict[str, Any], ...] = (
    {"split": "dev"},
    {"tasks": ("STSB-dev",)},
    {"task": "STSB-dev"},
    {"part": "train"},
)
"""Settings with which an evaluator may score on development data, if it has these fields."""


def cannot_decide(
    decide: Decide,
    evaluators: Sequence[Evaluator],
    document: Document,
) -> Iterator[Problem]:
    """Yield a problem for each reason why no score of `evaluators` can decide between the cells.

    `evaluators` are the evaluators that the cells run after their last stage.
    """
    place = ("study", "decide")
    names = list(dict.fromkeys(evaluator.name for evaluator in evaluators))
    if decide.evaluator and decide.evaluator not in names:
        message = f"no cell is evaluated by `{decide.evaluator}`.{suggest(decide.evaluator, names)}"
        yield document.problem(message, (*place, "evaluator"))
        return

    if decide.evaluator:
        evaluators = [each for each in evaluators if each.name == decide.evaluator]
    unknown = list(_unknown_tasks(decide, evaluators))
    for message in unknown:
        yield document.problem(message, (*place, "tasks"))

    if unknown:
        return

    if not evaluators:
        message = "no cell is evaluated after its last stage; add an `[[evaluate]]`"
        yield document.problem(message, place)
        return

    tasks = decide.tasks
    if AVERAGE in tasks:
        # An average may contain any task.
        tasks = ()
    data = set()
    for evaluator in evaluators:
        for part in _parts(evaluator, tasks):
            data.add(_data(part))

    if data == {"test"} and not decide.test_data:
        yield document.problem(_only_test_data(evaluators), place)
    elif data == {"development"} and decide.test_data:
        message = "`test_data = true`, and all that could decide is on development data; take it out"
        yield document.problem(message, (*place, "test_data"))


def _unknown_tasks(decide: Decide, evaluators: Sequence[Evaluator]) -> Iterator[str]:
    """Yield a message for each task of `[study.decide]` that no evaluator has.

    Yield none if there is an evaluator whose tasks are unknown.
    """
    pairs = []
    for evaluator in evaluators:
        tasks = _tasks(evaluator)
        if not tasks:
            return
        for task in tasks:
            pairs.append((evaluator, task))

    names = list(dict.fromkeys(task for _, task in pairs))
    for deciding_task in decide.tasks:
        if deciding_task == AVERAGE:
            continue
        if not any(_gives(evaluator, task, deciding_task) for evaluator, task in pairs):
            hint = suggest(deciding_task, names)
            yield f"no cell has scores of the task `{deciding_task}`.{hint}"


def _tasks(evaluator: Evaluator) -> tuple[str, ...]:
    """Return the names of an evaluator's tasks from its fields; empty if the fields do not have them.

    An evaluator of a single file has one task, whose name is the field `task` or else the name of the file.
    """
    fields = _fields(evaluator)
    if {"task", "path"} <= fields.keys():
        task, path = fields["task"], fields["path"]
        if isinstance(task, str):
            return (task,)
        if not isinstance(path, str):
            return ()
        # The path may be a directory with a dot in its name, so the task may have either name.
        return tuple(dict.fromkeys((Path(path).stem, Path(path).name)))

    tasks = fields.get("tasks")
    return tasks if isinstance(tasks, tuple) else ()


def _gives(
    evaluator: Evaluator,
    task: str,
    scored_task: str,
) -> bool:
    """Whether the scores of an evaluator's task `task` can have the task name `scored_task`.

    A task of unknown data may have several scores, such as one per language. The names of these scores begin
    with the name of the task.
    """
    if scored_task == task:
        return True
    if "tasks" not in _fields(evaluator) or not scored_task.startswith(task):
        return False
    return _data(_with(evaluator, {"tasks": (task,)})) == "unknown"


def _parts(evaluator: Evaluator, deciding: Sequence[str]) -> list[Evaluator]:
    """Return an evaluator for each deciding task of `evaluator`: a copy that has only this task.

    `deciding` are the names of the deciding tasks; if it is empty, all tasks decide. An evaluator that cannot be
    divided into tasks is returned itself, unless its only task does not decide.
    """
    tasks = _tasks(evaluator)
    if not tasks:
        return [evaluator]

    if "tasks" not in _fields(evaluator):
        is_left_out = deciding and not set(tasks) & set(deciding)
        return [] if is_left_out else [evaluator]

    parts = []
    for task in tasks:
        decides = any(_gives(evaluator, task, name) for name in deciding)
        if decides or not deciding:
            parts.append(_with(evaluator, {"tasks": (task,)}))
    return parts


def _data(evaluator: Evaluator) -> Literal["development", "test", "unknown"]:
    """Return on which data an evaluator scores.

    If it does not say that it scores on development data, but would say so with another setting, it scores
    on test data. Otherwise, its data is unknown.
    """
    if evaluator.development:
        return "development"
    return "test" if _remedy(evaluator) else "unknown"


def _remedy(evaluator: Evaluator) -> dict[str, Any]:
    """Return a setting with which an evaluator would score on development data; empty if there is none."""
    fields = _fields(evaluator)
    for setting in _DEVELOPMENT:
        if not setting.keys() <= fields.keys():
            continue
        if _with(evaluator, setting).development:
            return setting
    return {}


def _with(evaluator: Any, setting: Mapping[str, Any]) -> Evaluator:
    """Return a copy of an evaluator with other values of some fields."""
    changed: Evaluator = attrs.evolve(evaluator, **setting)
    return changed


def _fields(evaluator: Any) -> dict[str, Any]:
    """Return field -> value of an evaluator."""
    return attrs.asdict(evaluator, recurse=False)


def _only_test_data(evaluators: Iterable[Evaluator]) -> str:
    """Return the message for evaluators that all score on test data, with settings that would change this."""
    remedies: dict[str, str] = {}
    for evaluator in evaluators:
        for name, value in _remedy(evaluator).items():
            written = f'"{value}"'
            if isinstance(value, tuple):
                written = f'["{value[0]}"]'
            remedy = f"`{name} = {written}` of `{evaluator.name}`"
            remedies.setdefault(evaluator.name, remedy)
    return (
        "all scores that could decide are on test data, and the score of a cell that is chosen by it is too "
        f"good; add an `[[evaluate]]` on development data ({', or '.join(remedies.values())}), or set "
        "`test_data = true`: the report then says that the choice was made on test data"
    )
