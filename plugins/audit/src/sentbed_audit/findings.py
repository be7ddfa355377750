"""`Finding`: scores or models that are left out of a comparison, and why."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

Kind: TypeAlias = Literal[
    "unreadable",
    "not finite",
    "scale",
    "two scores",
    "metric",
    "split",
    "subset",
    "data revision",
    "rare task",
    "missing tasks",
]

SENTENCES: dict[Kind, str] = {
    "unreadable": "Files that are damaged or cannot be read as results.",
    "not finite": "Scores that are NaN or infinite.",
    "scale": "Scores on another scale than the others of their task, such as percentages among fractions.",
    "two scores": "Different scores of the same model, task and seed, in one file or several.",
    "metric": "Scores in another metric than most scores of their task.",
    "split": "Scores on another split than most scores of their task.",
    "subset": "Scores that lack a subset, such as a language, which other scores of their task include.",
    "data revision": "Scores on another revision of the data than most scores of their task.",
    "rare task": "Tasks that fewer than half of the models have; name them with `--task` to compare them.",
    "missing tasks": "Models that lack a score of a task that is compared; they are not ranked.",
}
"""A sentence for each kind of finding, in the order of the report."""


@attrs.frozen
class Finding:
    """What is left out of a comparison."""

    kind: Kind
    subject: str
    """The model or task; for a file that cannot be read, the file."""
    detail: str
    files: tuple[str, ...] = ()
