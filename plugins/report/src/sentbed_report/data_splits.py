"""Which scores are on development data: by their protocol, or because their data decided something."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import attrs
from sentbed.protocols import Score

DEVELOPMENT = frozenset(("train", "dev", "development", "validation"))
"""Values of `split` in a protocol that name data which may be chosen on."""
UNDECLARED = frozenset(("", "whole file", "first lines"))
"""Values of `split` of files of which nobody said what they are for."""
DECIDED = "not declared; development elsewhere in the study"
"""Value of `split` of such a file that another score of the study is on as development data."""


def is_development(score: Score) -> bool:
    """Whether a score's protocol says that its data are development or training data."""
    split = str(score.evaluator_protocol.get("split", ""))
    return split in DEVELOPMENT or split == DECIDED


def data_of(score: Score) -> frozenset[str]:
    """Return the hashes of the data of a score, as far as its protocol names them."""
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
    """Return a score with `DECIDED` as its split if its data are not declared and among those that decided.

    `decided` are hashes of data that were declared as development data, by which a study may decide.
    """
    part = score.evaluator_protocol
    if str(part.get("split", "")) not in UNDECLARED or data_of(score).isdisjoint(
        decided
    ):
        return score
    part = {**part, "split": DECIDED}
    protocol = {**score.protocol, "evaluator": part} if score.evaluator else part
    return attrs.evolve(score, protocol=protocol)
