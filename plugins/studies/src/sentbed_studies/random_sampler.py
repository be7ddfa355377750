"""Sampler `random`: draws cells without replacement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
from sentbed.protocols import CellSampler


@attrs.frozen
class Random(CellSampler):
    """Cells drawn at random without replacement (Bergstra and Bengio, 2012)."""

    name: ClassVar[str] = "random"
    learns: ClassVar[bool] = False

    def choose(
        self,
        cells: Sequence[Mapping[str, Any]],
        scores: Mapping[int, float | None],
        count: int,
        seed: int,
    ) -> list[int]:
        """Return the indices of `count` cells: the first in a random order that have not been chosen before."""
        import numpy as np

        order = np.random.default_rng(seed).permutation(len(cells)).tolist()
        unchosen = [cell for cell in order if cell not in scores]
        return unchosen[:count]
