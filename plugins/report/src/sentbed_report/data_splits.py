"""Whether a score is on development or test data, by its protocol or by other uses of its data in the study."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs
from sentbed.protocols import Score

DEVELOPMENT = frozenset(("train", "dev", "development", "validation"))
"""Values of `split` in a protocol for data by which weights, and the best cell of a study, may be chosen."""
UNDECLARED = frozenset(("", "whole file", "first lines"))
"""Values of `split` in a protocol for data whose purpose the recipe does not declare."""
DECIDED = "not declared; development elsewhere in the study"
"""Value of `split` for undeclared data that the study uses as development data elsewhere."""


def is_development(score: Score) -> bool:
    """Whether a score is on development or training data, according to its protocol."""
    split = str(score.evaluator_protocol.get("split", ""))
    return split in DEVELOPMENT or split == DECIDED


def data_of(score: Score) -> frozenset[str]:
    """Return the hashes of a score's data files, as its protocol records them; empty if it records none."""
    return _hashes(score.evaluator_protocol.get("data"))


def _hashes(data: Any) -> frozenset[str]:
    if isinstance(data, str):
        return frozenset((data,))
    if isinstance(data, Mapping):
        data = data.values()
    if isinstance(data, Iterable):
        return frozenset[str]().union(*map(_hashes, data))
    return frozenset()


def with_decided_split(score: Score, decided: Collection[str]) -> Score:
    """Return a score, with the split `DECIDED` if its data is undeclared and `decided` contains this data.

    `decided` has the hashes of the data files that the study uses as development data.
    """
    split = str(score.evaluator_protocol.get("split", ""))
    if split not in UNDECLARED or data_of(score).isdisjoint(decided):
        return score

    protocol = {**score.evaluator_protocol, "split": DECIDED}
    if score.evaluator:
        protocol = {**score.protocol, "evaluator": protocol}
    return attrs.evolve(score, protocol=protocol)
