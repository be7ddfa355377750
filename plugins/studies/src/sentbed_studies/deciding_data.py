"""Whether a study's evaluators can decide between its cells, as far as that is known before it runs.

The traits of an evaluator say on which data it scores, and so does the protocol of each score once it has run.
What is
known before, and cannot work, is refused; what may work is not.
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

from sentbed_studies.study_config import StudyTable

_DEVELOPMENT: tuple[dict[str, Any], ...] = (
    {"split": "dev"},
    {"tasks": ("STSB-dev",)},
    {"task": "STSB-dev"},
    {"part": "train"},
)
"""Settings that make an evaluator one on development data, where it has them."""


def cannot_decide(
    table: StudyTable, evaluators: Sequence[Evaluator], document: Document
) -> Iterator[Problem]:
    """Yield a problem for each reason for which no score of `evaluators` could decide.

    `evaluators` are those of all cells after their last stage.
    """
    decide = table.decides_by
    place = ("study", table.decides_for or "decide")
    names = list(dict.fromkeys(evaluator.name for evaluator in evaluators))
    if decide.evaluator and decide.evaluator not in names:
        message = f"no cell is evaluated by `{decide.evaluator}`.{suggest(decide.evaluator, names)}"
        yield document.problem(message, (*place, "evaluator"))
        return
    if decide.evaluator:
        evaluators = [
            evaluator for evaluator in evaluators if evaluator.name == decide.evaluator
        ]
    unknown = list(_unknown_tasks(decide, evaluators))
    for message in unknown:
        yield document.problem(message, (*place, "tasks"))
    if unknown:
        return
    if not evaluators:
        yield document.problem(
            "no cell is evaluated after its last stage; add an `[[evaluate]]`", place
        )
        return
    # An average may be over any of them.
    tasks = () if AVERAGE in decide.tasks else decide.tasks
    data = set()
    for evaluator in evaluators:
        data |= {_data(part) for part in _parts(evaluator, tasks)}
    if data == {"test"} and not decide.test_data:
        yield document.problem(_only_test_data(evaluators), place)
    elif data == {"development"} and decide.test_data:
        message = "`test_data = true`, and all that could decide is on development data; take it out"
        yield document.problem(message, (*place, "test_data"))


def _unknown_tasks(decide: Decide, evaluators: Sequence[Evaluator]) -> Iterator[str]:
    """Yield a message for each deciding task that no evaluator has, if all of them list their tasks."""
    pairs = []
    for evaluator in evaluators:
        tasks = _tasks(evaluator)
        if not tasks:
            return
        pairs += [(evaluator, task) for task in tasks]
    for deciding_task in decide.tasks:
        if deciding_task == AVERAGE:
            continue
        if not any(_gives(evaluator, task, deciding_task) for evaluator, task in pairs):
            hint = suggest(
                deciding_task, list(dict.fromkeys(task for _, task in pairs))
            )
            yield f"no cell has scores of the task `{deciding_task}`.{hint}"


def _tasks(evaluator: Evaluator) -> tuple[str, ...]:
    """Return the tasks that an evaluator is set to; empty if that is not what it is set by.

    The task of an evaluator of one file has the name of its field `task`, or else that of the file.
    """
    fields = _fields(evaluator)
    if {"task", "path"} <= fields.keys():
        task, path = fields["task"], fields["path"]
        if isinstance(task, str):
            return (task,)
        if not isinstance(path, str):
            return ()
        # A directory has no suffix, whatever points its name has.
        return tuple(dict.fromkeys((Path(path).stem, Path(path).name)))
    tasks = fields.get("tasks")
    return tasks if isinstance(tasks, tuple) else ()


def _gives(evaluator: Evaluator, task: str, scored_task: str) -> bool:
    """Whether a task of an evaluator can have scores that are called `scored_task`.

    Of an evaluator that does not say on which data it is, a task may have several, such as one a language,
    whose names begin like its own.
    """
    if scored_task == task:
        return True
    if "tasks" not in _fields(evaluator) or not scored_task.startswith(task):
        return False
    return _data(_with(evaluator, {"tasks": (task,)})) == "unknown"


def _parts(evaluator: Evaluator, deciding: Sequence[str]) -> list[Evaluator]:
    """Return the evaluator once for each of its tasks that decides, with this task alone."""
    tasks = _tasks(evaluator)
    if not tasks:
        return [evaluator]
    if "tasks" not in _fields(evaluator):
        is_left_out = deciding and not set(tasks) & set(deciding)
        return [] if is_left_out else [evaluator]
    if deciding:
        kept = []
        for task in tasks:
            if any(_gives(evaluator, task, name) for name in deciding):
                kept.append(task)
        tasks = tuple(kept)
    return [_with(evaluator, {"tasks": (task,)}) for task in tasks]


def _data(evaluator: Evaluator) -> Literal["development", "test", "unknown"]:
    """Return on which data an evaluator is.

    It is on test data if its traits would say otherwise under other settings; one whose traits say nothing
    under any may say it in its scores' protocol.
    """
    if evaluator.traits.development:
        return "development"
    return "test" if _remedy(evaluator) else "unknown"


def _remedy(evaluator: Evaluator) -> dict[str, Any]:
    """Return a setting with which an evaluator would be on development data; empty if none is known."""
    for setting in _DEVELOPMENT:
        if (
            setting.keys() <= _fields(evaluator).keys()
            and _with(evaluator, setting).traits.development
        ):
            return setting
    return {}


def _with(evaluator: Any, setting: Mapping[str, Any]) -> Evaluator:
    changed: Evaluator = attrs.evolve(evaluator, **setting)
    return changed


def _fields(evaluator: Any) -> dict[str, Any]:
    return attrs.asdict(evaluator, recurse=False)


def _only_test_data(evaluators: Iterable[Evaluator]) -> str:
    remedies: dict[str, str] = {}
    for evaluator in evaluators:
        for name, value in _remedy(evaluator).items():
            setting = f'["{value[0]}"]' if isinstance(value, tuple) else f'"{value}"'
            remedies.setdefault(
                evaluator.name, f"`{name} = {setting}` of `{evaluator.name}`"
            )
    return (
        "all scores that could decide are on test data, and the score of a cell that is chosen by it is too "
        f"good; add an `[[evaluate]]` on development data ({', or '.join(remedies.values())}), or set "
        "`test_data = true`: the report then says that the choice was made on test data"
    )
