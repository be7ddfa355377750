"""`Finding`: a problem of results that limits how they can be compared."""

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
    "missing tasks",
    "duplicate",
    "model revision",
    "software",
    "format",
    "trained on",
]

Consequence: TypeAlias = Literal["left out", "not paired", "mind"]
"""Consequence of a finding. `left out`: the scores are not compared at all. `not paired`: they are compared
only with scores on the same revision of the data. `mind`: they are compared, and the report warns the reader."""

SENTENCES: dict[Kind, str] = {
    "unreadable": "Files that are no results, or damaged ones.",
    "not finite": "Scores that are no finite number.",
    "scale": "Scores on another scale than the others of their task, such as per cent among shares.",
    "two scores": "Files with different scores of one model and task.",
    "metric": "Scores in another metric than most of their task.",
    "split": "Scores on another split than most of their task.",
    "subset": "Scores without a subset (a language) that the others of their task average over.",
    "data revision": "Scores on another revision of the data than others of their task.",
    "missing tasks": "Models without a score on some task that is compared.",
    "duplicate": "Different models with the same scores on all tasks that both have.",
    "model revision": "Models with several revisions, each of which is a row of its own.",
    "software": "Tasks whose scores come from several versions of the software.",
    "format": "Files of before MTEB 1.11, whose main score is found by its name.",
    "trained on": "Tasks whose data a model declares among its training data.",
}
"""Description of each kind of finding, in the order of the report."""


@attrs.frozen
class Finding:
    """One finding, with the files that it concerns."""

    kind: Kind
    consequence: Consequence
    subject: str
    """Model or task that it concerns; the file, if it cannot be read."""
    detail: str
    files: tuple[str, ...] = ()
