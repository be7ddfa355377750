"""Task suites, evaluators of several tasks: checks, tasks that are present, average, classifier."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import attrs
from sentbed.errors import DataError, suggest
from sentbed.protocols import Evaluation, Items, Prepared, Score, Vectors

from sentbed_evaluators.classifier_training import Classifier, Progress

_PROTOCOL_KEYS = (
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
    tasks: Sequence[str], choices: Collection[str] | None, name: str, what: str = "task"
) -> Iterator[str]:
    """Yield problems with a list of tasks: that it is empty, unknown tasks, repeated ones.

    `name` is the evaluator, `choices` its tasks, or None to accept any task, and `what` the word for them.
    """
    if not tasks:
        yield f"`{what}s` is empty; name at least one {what}"
    for i, task in enumerate(tasks):
        if choices is not None and task not in choices:
            yield f"`{task}` is not a {what} of `{name}`.{suggest(task, tuple(choices))}"
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


def tasks_read(
    evaluator: Any, missing: Callable[[], Collection[str]]
) -> tuple[str, ...]:
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


def with_skipped(
    prepared: Prepared, skipped: Callable[[Score], tuple[str, ...]]
) -> Prepared:
    """Return the evaluation with scores that name the tasks which `skipped` returns for them.

    An average that the evaluator gives is over a whole row, and names no tasks.
    """

    def score(vectors: Vectors) -> Evaluation:
        evaluation = prepared.score(vectors)
        scores = []
        for score in evaluation.scores:
            if score.task != "AVG":
                score = attrs.evolve(score, skipped=skipped(score))  # noqa: PLW2901
            scores.append(score)
        return attrs.evolve(evaluation, scores=tuple(scores))

    return attrs.evolve(prepared, score=score)


def average(scores: Sequence[Score], metric: str, **details: Any) -> Score:
    """Return the plain mean of tasks' scores, as the score `AVG`; `details` are added to its protocol.

    It has items if every task's score is a plain mean of items.
    """
    import numpy as np

    protocol: dict[str, Any] = {
        "aggregation": "mean",
        "of": {score.task: score.metric for score in scores},
    }
    for key in _PROTOCOL_KEYS:
        values = {
            score.task: score.protocol[key] for score in scores if key in score.protocol
        }
        if not values:
            continue
        first = next(iter(values.values()))
        differs = any(value != first for value in values.values())
        protocol[key] = values if differs else first
    x, clusters = [], []
    for score in scores:
        if (
            score.items is not None
            and score.items.statistic == "mean"
            and score.items.groups is None
        ):
            x.append(score.items.x)
            if score.items.clusters is not None:
                clusters.append(score.items.clusters)
    items = None
    if len(x) == len(scores):
        groups = np.repeat(np.arange(len(x)), [len(values) for values in x])
        items = Items("mean", np.concatenate(x), groups=groups)
        if len(clusters) == len(scores):
            items = attrs.evolve(items, clusters=np.concatenate(clusters))
    value = sum(score.value for score in scores) / len(scores)
    degenerate = ", ".join(score.task for score in scores if score.degenerate)
    reason = ""
    if degenerate:
        reason = f"it includes {degenerate}, where the score is degenerate"
    return Score(
        "AVG", metric, value, {**protocol, **details}, items=items, degenerate=reason
    )


def classifier_of(
    vectors: Vectors,
    protocol: Literal["senteval", "logistic"],
    mode: Literal["test", "fast"],
    seed: int,
) -> Classifier:
    """Return a classifier on the encoder's device."""
    return Classifier(protocol, mode, seed, vectors.device)


def part_progress(vectors: Vectors, what: str) -> Progress:
    """Return a callback that reports the progress of the classifiers of `what`."""
    return partial(vectors.progress, f"{what}: classifiers")
