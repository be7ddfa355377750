"""Task suites, evaluators of several tasks: checks, tasks that are present, average, classifier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import attrs
from sentbed.errors import DataError, suggest
from sentbed.protocols import Evaluation, Items, Prepared, Score, Vectors

from sentbed_evaluators.classifier_training import Classifier, Progress

_SAID = (
    "id",
    "mteb",
    "split",
    "features",
    "classifier",
    "penalty",
    "similarity",
    "limit",
    "seed",
    "builder",
    "set_seed",
    "size",
    "text",
    "data",
    "subset",
    "revision",
)
"""Keys of the tasks' protocols that an average's repeats: one value if they agree, else one per task."""


def task_problems(
    tasks: Sequence[str], known: Collection[str] | None, name: str, what: str = "task"
) -> Iterator[str]:
    """Yield problems with a list of tasks: that it is empty, unknown tasks, repeated ones.

    `name` is the evaluator, `known` its tasks, or None if they are not known here, and `what` the word for
    them.
    """
    if not tasks:
        yield f"`{what}s` is empty; name at least one {what}"
    for i, task in enumerate(tasks):
        if known is not None and task not in known:
            yield f"`{task}` is not a {what} of `{name}`.{suggest(task, tuple(known))}"
        if task in tasks[:i]:
            yield f"{what} `{task}` is listed twice; remove one"


def missing_problems(
    find: Callable[[], Mapping[str, str]], tasks: Sequence[str], skip: bool
) -> Iterator[str]:
    """Yield the problems of tasks without data; with `skip`, only if all are, as then nothing is left.

    `find` returns the message of each such task, in the order of `tasks`, or raises `DataError`.
    """
    try:
        missing = find()
    except DataError as error:
        yield str(error)
        return
    messages = tuple(dict.fromkeys(missing.values()))
    if not skip:
        yield from messages
    elif messages and missing.keys() >= set(tasks):
        yield f"`skip_missing` leaves no task: {messages[0]}"


def tasks_read(evaluator: Any, missing: Callable[[], Collection[str]]) -> tuple[str, ...]:
    """Return the tasks that an evaluator with the fields `tasks` and `skip_missing` reads.

    `missing` returns those without data, which are left out if it skips them.
    """
    skipped = missing() if evaluator.skip_missing else ()
    return tuple(task for task in evaluator.tasks if task not in skipped)


def prepare_present(evaluator: Any, missing: Collection[str]) -> Prepared:
    """Prepare an evaluator with the fields `tasks` and `skip_missing` without its missing tasks."""
    left = tuple(task for task in evaluator.tasks if task not in missing)
    prepared = attrs.evolve(evaluator, tasks=left, skip_missing=False).prepare()
    return with_skipped(prepared, lambda _: tuple(missing))


def with_skipped(prepared: Prepared, skipped: Callable[[Score], tuple[str, ...]]) -> Prepared:
    """Return what was prepared, its scores naming the tasks that `skipped` returns for them.

    An average that the evaluator gives is over a whole row, and names none.
    """

    def score(vectors: Vectors) -> Evaluation:
        found = prepared.score(vectors)
        scores = (
            one if one.task == "AVG" else attrs.evolve(one, skipped=skipped(one)) for one in found.scores
        )
        return attrs.evolve(found, scores=tuple(scores))

    return attrs.evolve(prepared, score=score)


def average(scores: Sequence[Score], metric: str, **said: Any) -> Score:
    """Return the plain mean of tasks' scores, as the score `AVG`; `said` is added to its protocol.

    It has items if every task's score is a plain mean of items.
    """
    import numpy as np

    protocol: dict[str, Any] = {"aggregation": "mean", "of": {score.task: score.metric for score in scores}}
    for key in _SAID:
        values = {score.task: score.protocol[key] for score in scores if key in score.protocol}
        for first in list(values.values())[:1]:
            protocol[key] = first if all(value == first for value in values.values()) else values
    parts = [
        score.items
        for score in scores
        if score.items is not None and score.items.statistic == "mean" and score.items.groups is None
    ]
    items = None
    if len(parts) == len(scores):
        groups = np.repeat(np.arange(len(parts)), [len(part.x) for part in parts])
        named = [part.clusters for part in parts if part.clusters is not None]
        clusters = np.concatenate(named) if len(named) == len(parts) else None
        items = Items("mean", np.concatenate([part.x for part in parts]), groups=groups, clusters=clusters)
    value = sum(score.value for score in scores) / len(scores)
    degenerate = ", ".join(score.task for score in scores if score.degenerate)
    reason = f"it includes {degenerate}, where the score is degenerate" if degenerate else ""
    return Score("AVG", metric, value, {**protocol, **said}, items=items, degenerate=reason)


def classifier_of(
    vectors: Vectors, protocol: Literal["senteval", "logistic"], mode: Literal["test", "fast"], seed: int
) -> Classifier:
    """Return a classifier on the encoder's device."""
    return Classifier(protocol, mode, seed, vectors.device)


def part_progress(vectors: Vectors, what: str) -> Progress:
    """Return a callback that reports the progress of the classifiers of `what`."""
    return partial(vectors.progress, f"{what}: classifiers")
