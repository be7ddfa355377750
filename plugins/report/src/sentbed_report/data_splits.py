"""Development or test data: the split of a score, by its protocol, or because its data decided something."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs
from sentbed.protocols import Score

DEVELOPMENT = frozenset(("train", "dev", "development", "validation"))
"""Values of `split` in a protocol for data by which weights and cells may be chosen."""
UNDECLARED = frozenset(("", "whole file", "first lines"))
"""Values of `split` for files whose purpose was not declared."""
DECIDED = "not declared; development elsewhere in the study"
"""Value of `split` for such a file that the study uses as development data elsewhere."""


def is_development(score: Score) -> bool:
    """Whether a score is on development or training data, according to its protocol."""
    split = str(score.evaluator_protocol.get("split", ""))
    return split in DEVELOPMENT or split == DECIDED


def data_of(score: Score) -> frozenset[str]:
    """Return the hashes of the data files of a score that its protocol contains."""
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
    """Return a score with the split `DECIDED` if its data is undeclared and its hash is in `decided`.

    `decided` are hashes of data by which the study decides.
    """
    part = score.evaluator_protocol
    if str(part.get("split", "")) not in UNDECLARED or data_of(score).isdisjoint(
        decided
    ):
        return score
    part = {**part, "split": DECIDED}
    protocol = {**score.protocol, "evaluator": part} if score.evaluator else part
    return attrs.evolve(score, protocol=protocol)
