"""Rules by which hard negatives are chosen among the nearest candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from sentbed_common import Neighbours


@attrs.frozen
class Selection:
    """Negatives of a block of anchors, the nearest first."""

    places: NDArray[np.int64]
    """`(anchors, negatives)`: indices of candidates. If an anchor has too few negatives, its whole row is -1."""
    left_out: Counter[str]
    """Rule -> number of candidates that it left out. A candidate that breaks several rules is counted for the
    first of them, in the order of the fields of `Rules`."""


@attrs.frozen
class Rules:
    """Rules that decide which of the nearest candidates are negatives.

    Candidates are ranked by their similarity to the anchor, from 0 for the nearest, without the anchor itself
    and its positives. Similarities are cosines. The two margins are called TopK-MarginPos and TopK-PercPos in
    NV-Retriever (Moreira et al., 2024). The fields are named as in `mine_hard_negatives` of
    sentence-transformers, which, however, applies `range_min` after the other rules.
    """

    negatives: int = 1
    """Number of negatives per anchor, at least 1."""
    range_min: int = 0
    """Lowest rank of a negative, from 0; nearer candidates are likely to be unlabelled positives."""
    range_max: int = 100
    """Number of the nearest candidates that are considered; the highest rank of a negative is one less."""
    absolute_margin: float | None = None
    """Smallest difference between the similarity of the anchor's positive and the similarity of a negative. If
    equal anchors have several positives, the least similar positive is used."""
    relative_margin: float | None = None
    """The same difference as a share of the positive's similarity: with 0.05, a negative has at most 95 % of this
    similarity."""
    max_score: float | None = None
    """Highest similarity of a negative, from -1 to 1."""
    min_score: float | None = None
    """Lowest similarity of a negative, from -1 to 1."""
    sampling: Literal["top", "random"] = "top"
    """Whether to take the nearest of the candidates that the rules leave, or a random choice of them."""
    seed: int = 0
    """Seed of the random choice."""

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each contradiction."""
        if self.negatives > self.range_max - self.range_min:
            yield (
                f"from rank {self.range_min} to below rank {self.range_max} there is no room for "
                f"{self.negatives} negatives; raise `range_max`, or lower `range_min` or `negatives`"
            )
        low, high = self.min_score, self.max_score
        if low is not None and high is not None and low > high:
            yield f"`min_score` {low:g} is above `max_score` {high:g}; exchange them"

    def select(
        self,
        neighbours: Neighbours,
        positives: NDArray[np.float64],
        first: int = 0,
    ) -> Selection:
        """Choose the negatives of anchors among their nearest candidates.

        `positives`, `(anchors,)`, is the similarity of each anchor to its least similar positive. `first` is
        the number of the first anchor in the whole data; a random choice then does not depend on how anchors
        are divided into blocks.
        """
        import numpy as np

        scores = neighbours.similarities
        left_out: Counter[str] = Counter()
        allowed = neighbours.places >= 0
        for rule, refused in self._refusals(scores, positives):
            left_out[rule] += int(np.count_nonzero(allowed & refused))
            allowed &= ~refused

        # The allowed candidates with the smallest keys are chosen, and are then put in the order of ranks.
        keys = self._keys(scores.shape, first)
        keys[~allowed] = np.inf
        by_key = np.argsort(keys, axis=1, kind="stable")
        chosen = np.sort(by_key[:, : self.negatives], axis=1)

        places = np.full((len(scores), self.negatives), -1)
        enough = np.count_nonzero(allowed, axis=1) >= self.negatives
        if enough.any():
            columns = chosen[enough]
            places_of_enough = neighbours.places[enough]
            places[enough] = np.take_along_axis(places_of_enough, columns, axis=1)
        return Selection(places, left_out)

    def _refusals(
        self, scores: NDArray[np.float64], positives: NDArray[np.float64]
    ) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yield each rule with a mask of the candidates that it leaves out, `(anchors, candidates)`."""
        import numpy as np

        ranks = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
        yield "range_min", ranks < self.range_min

        positive_scores = positives[:, None]
        if self.absolute_margin is not None:
            highest = positive_scores - self.absolute_margin
            yield "absolute_margin", scores > highest
        if self.relative_margin is not None:
            highest = positive_scores - np.abs(positive_scores) * self.relative_margin
            yield "relative_margin", scores > highest
        if self.max_score is not None:
            yield "max_score", scores > self.max_score
        if self.min_score is not None:
            yield "min_score", scores < self.min_score

    def _keys(self, shape: tuple[int, ...], first: int) -> NDArray[np.float64]:
        """Return a key for each candidate, as an array of this shape; the lowest keys are chosen.

        A key is the candidate's rank, or a random number if `sampling` is `random`.
        """
        import numpy as np

        if self.sampling == "top":
            ranks = np.arange(shape[1], dtype=np.float64)
            return np.tile(ranks, (shape[0], 1))
        # The generator skips the numbers of earlier anchors.
        generator = np.random.PCG64(self.seed).advance(first * shape[1])
        return np.random.Generator(generator).random(shape)
