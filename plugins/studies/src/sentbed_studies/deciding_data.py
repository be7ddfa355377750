"""Whether a study's evaluators can decide between its cells, as far as that is known before it runs.

On which data an evaluator is, its traits say, and the protocol of each of its scores once it has run. What is
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
    names = list(dict.fromkeys(one.name for one in evaluators))
    if decide.evaluator and decide.evaluator not in names:
        message = f"no cell is evaluated by `{decide.evaluator}`.{suggest(decide.evaluator, names)}"
        yield document.problem(message, (*place, "evaluator"))
        return
    ours = [one for one in evaluators if decide.evaluator in ("", one.name)]
    if unknown := list(_unknown_tasks(decide, ours)):
        yield from (document.problem(message, (*place, "tasks")) for message in unknown)
        return
    # An average may be over any of them.
    wanted = () if AVERAGE in decide.tasks else decide.tasks
    data = {_data(part) for one in ours for part in _parts(one, wanted)}
    if not ours:
        yield document.problem("no cell is evaluated after its last stage; add an `[[evaluate]]`", place)
    elif data == {"test"} and not decide.test_data:
        yield document.problem(_only_test_data(ours), place)
    elif data == {"development"} and decide.test_data:
        message = "`test_data = true`, and all that could decide is on development data; take it out"
        yield document.problem(message, (*place, "test_data"))


def _unknown_tasks(decide: Decide, evaluators: Sequence[Evaluator]) -> Iterator[str]:
    """Yield a message for each deciding task that no evaluator has, if all of them list their tasks."""
    known = list(dict.fromkeys(task for one in evaluators for task in _tasks(one)))
    for task in decide.tasks if all(map(_tasks, evaluators)) else ():
        if task != AVERAGE and not any(_gives(one, own, task) for one in evaluators for own in _tasks(one)):
            yield f"no cell has scores of the task `{task}`.{suggest(task, known)}"


def _tasks(evaluator: Evaluator) -> tuple[str, ...]:
    """Return the tasks that an evaluator is set to; empty if that is not what it is set by.

    The task of an evaluator of one file has the name of its field `task`, or else that of the file.
    """
    fields = _fields(evaluator)
    if fields >= {"task", "path"}:
        task, path = getattr(evaluator, "task", None), getattr(evaluator, "path", None)
        if isinstance(task, str):
            return (task,)
        # A directory has no suffix, whatever points its name has.
        return tuple(dict.fromkeys((Path(path).stem, Path(path).name))) if isinstance(path, str) else ()
    found = getattr(evaluator, "tasks", None) if "tasks" in fields else None
    return found if isinstance(found, tuple) else ()


def _gives(evaluator: Evaluator, own: str, task: str) -> bool:
    """Whether the task `own` of an evaluator can have scores that are called `task`.

    Of an evaluator that does not say on which data it is, a task may have several, such as one a language,
    whose names begin like its own.
    """
    if task == own:
        return True
    if "tasks" not in _fields(evaluator):
        return False
    return task.startswith(own) and _data(_with(evaluator, {"tasks": (own,)})) == "unknown"


def _parts(evaluator: Evaluator, wanted: Sequence[str]) -> list[Evaluator]:
    """Return the evaluator once for each of its tasks that decides, with this task alone."""
    tasks = _tasks(evaluator)
    if not tasks:
        return [evaluator]
    if "tasks" not in _fields(evaluator):
        return [evaluator] if not wanted or set(tasks) & set(wanted) else []
    ours = [own for own in tasks if not wanted or any(_gives(evaluator, own, task) for task in wanted)]
    return [_with(evaluator, {"tasks": (own,)}) for own in ours]


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
        if setting.keys() <= _fields(evaluator) and _with(evaluator, setting).traits.development:
            return setting
    return {}


def _with(evaluator: Any, setting: Mapping[str, Any]) -> Evaluator:
    changed: Evaluator = attrs.evolve(evaluator, **setting)
    return changed


def _fields(evaluator: Any) -> set[str]:
    return {field.name for field in attrs.fields(type(evaluator))}


def _only_test_data(evaluators: Iterable[Evaluator]) -> str:
    remedies: dict[str, str] = {}
    for one in evaluators:
        for name, value in _remedy(one).items():
            shown = f'["{value[0]}"]' if isinstance(value, tuple) else f'"{value}"'
            remedies.setdefault(one.name, f"`{name} = {shown}`")
    listed = ", or ".join(f"{remedy} of `{name}`" for name, remedy in remedies.items())
    return (
        "all scores that could decide are on test data, and the score of a cell that is chosen by it is too "
        f"good; add an `[[evaluate]]` on development data ({listed}), or set `test_data = true`: the report "
        "then says that the choice was made on test data"
    )
