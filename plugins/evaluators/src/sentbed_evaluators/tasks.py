"""What the evaluators with a list of tasks have in common: their checks, their average, their classifier."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from sentbed.errors import suggest
from sentbed.protocols import Items, Score, Vectors

from sentbed_evaluators.classifier import Classifier, Progress

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
"""What the protocol of an average repeats of its tasks': one value where they agree, else one a task."""


def task_problems(
    tasks: Sequence[str], known: Collection[str] | None, name: str, what: str = "task"
) -> Iterator[str]:
    """Yield that there are no tasks, those that the evaluator `name` does not have, and repeated ones.

    `known`: None where it cannot be said here which there are. `what`: what they are called.
    """
    if not tasks:
        yield f"`{what}s` is empty; name at least one {what}"
    for i, task in enumerate(tasks):
        if known is not None and task not in known:
            yield f"`{task}` is not a {what} of `{name}`.{suggest(task, tuple(known))}"
        if task in tasks[:i]:
            yield f"{what} `{task}` is listed twice; remove one"


def average(scores: Sequence[Score], metric: str, **said: Any) -> Score:
    """Return the plain mean of tasks' scores, as the score `AVG`; `said` is added to its protocol.

    It has items where every task's are a plain mean.
    """
    import numpy as np

    protocol: dict[str, Any] = {"aggregation": "mean", "of": {score.task: score.metric for score in scores}}
    for key in _SAID:
        values = {score.task: score.protocol[key] for score in scores if key in score.protocol}
        for first in list(values.values())[:1]:
            protocol[key] = first if all(value == first for value in values.values()) else values
    parts = [
        score.items.x
        for score in scores
        if score.items is not None and score.items.statistic == "mean" and score.items.groups is None
    ]
    items = None
    if len(parts) == len(scores):
        groups = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        items = Items("mean", np.concatenate(parts), groups=groups)
    value = sum(score.value for score in scores) / len(scores)
    return Score("AVG", metric, value, {**protocol, **said}, items=items)


def classifier_of(
    vectors: Vectors, protocol: Literal["senteval", "logistic"], mode: Literal["test", "fast"], seed: int
) -> Classifier:
    """Return a classifier that computes where the encoder does."""
    return Classifier(protocol, mode, seed, vectors.device)


def part_progress(vectors: Vectors, what: str) -> Progress:
    """Return what tells how far the classifiers of `what` are."""
    return partial(vectors.progress, f"{what}: classifiers")
