"""The test that stops cells of a study while it runs, with one error rate for the whole study.

After each look (when every cell at work has its first n seeds), each pair of cells is compared: is the one
worse than the other by more than the margin? A cell for which that is shown gets no further seeds.

- The estimate is the mean over the n seeds of the paired differences d(s). Its variance has two sources, as
  in `sentbed_report.statistics.significance`: the items, which are the same at every look and which no
  further seed changes, and the seeds.
- With two or three seeds a sample variance says little. That of a pair's differences is therefore moderated
  (Smyth, 2004): s2 = (d0 s0 + (n - 1) s) / (d0 + n - 1), where s is the pair's own and s0 the mean over all
  pairs that are tested, with d0 = 3 degrees of freedom: the standard deviations of cells may well differ by
  a factor of 2. s2 has d0 + n - 1 degrees of freedom, or as many as s0 has if these are fewer: n - 1 times
  the number of cells that it is known from, less one (Satterthwaite, 1946).
- Prompts, where the study has some, are a third source: V_prompts is the variance over the prompts of the
  differences, each the mean over the seeds until now, divided by the number of prompts. It is moderated in
  the same way, with d0 = 4. The scores d(s) are then means over the prompts, and nothing is taken from the
  items' variance. Another prompt makes other scores of every seed, and so a look of its own.
- The error rate is spent on the looks (`spending.py`), and at each in equal parts on all claims that count
  (Bonferroni): every ordered pair of cells where the best one is sought, each cell once where all are
  compared with the baseline, or, where only the best cell is promised to stay, each cell that it could
  wrongly be called worse than.
  By the union bound, the probability that any claim of the study is wrong, at any look, is at most the error
  rate, however the scores of cells, seeds and items depend on each other. What it rests on is that
  differences are about normal, and that the variances of cells are not further apart than d0 says.

The looks are made in the order of the recipe's seeds and need all runs of a look. What is decided therefore
depends on the scores alone, not on who ran what when, nor on interruptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
from sentbed.statistics import EstimatedDifference, Source
from sentbed_report.study.decisions import Claim, Promise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Bools: TypeAlias = NDArray[np.bool_]

Factor: TypeAlias = Literal["seeds", "prompts"]
"""What cells are run with several of."""

ItemVariances: TypeAlias = "Callable[[Sequence[str]], tuple[Floats, Floats]]"
"""Cells -> variance and degrees of freedom of the difference of each pair that are due to the items, both
`(cells, cells)`."""
PRIOR_DEGREES = 3.0
"""Degrees of freedom of the variance over seeds that all cells have in common, in that of one pair."""
PRIOR_DEGREES_OF_PROMPTS = 4.0
"""The same of the variance over prompts."""
_NO_SPREAD = 1e-18
"""Variances up to this are rounding errors, and taken for none."""


@attrs.define(eq=False)
class SequentialTest:
    """State of the test of one study: the cells at work, and what was claimed."""

    cells: tuple[str, ...]
    """All cells that are tested; their number, or `among`, decides how many claims are possible."""
    looks: tuple[int, ...]
    """Number of seeds at each look, ascending, from 2."""
    error_rate: float = 0.05
    """Probability that any claim is wrong, in (0, 1)."""
    margin: float = 0.0
    """What a cell may be worse by, in the unit of the score."""
    baseline: str | None = None
    """Cell that all are compared with; None to compare every pair."""
    among: int = 0
    """Number of cells of which those tested were chosen by scores; 0 if none were."""
    promise: Promise = "all"
    """What the error rate is of: `all` claims, or `best`: that a best cell is called worse than another."""
    shares: Mapping[int, float] = attrs.field(factory=dict)
    """Number of seeds at a look -> its share of the error rate; by default the looks share it equally."""
    claims: list[Claim] = attrs.field(factory=list, init=False)
    _shared: dict[Factor, Source] = attrs.field(factory=dict, init=False)
    """What differences are over -> variance that pairs have in common, with its degrees of freedom."""

    @property
    def at_work(self) -> tuple[str, ...]:
        """Cells that have not been shown to be worse than another."""
        worse = {claim.cell for claim in self.claims}
        return tuple(cell for cell in self.cells if cell not in worse)

    @property
    def possible(self) -> int:
        """Number of claims at a look of which each may be wrong with the same probability."""
        count = max(self.among, len(self.cells))
        if self.baseline is None and self.promise == "all":
            return max(1, count * (count - 1))
        # That a best cell is worse can wrongly be claimed in comparison with each of the others.
        return max(1, count - 1)

    def level(self, seeds: int) -> float:
        """Return the level of one test at the look with so many seeds."""
        share = self.shares[seeds] if self.shares else 1 / len(self.looks)
        return self.error_rate * share / self.possible

    def look(
        self,
        values: Mapping[str, Sequence[float]],
        items: ItemVariances | None = None,
        prompts: Mapping[str, Sequence[float]] | None = None,
    ) -> tuple[Claim, ...]:
        """Compare the cells of `values`, and add and return the claims that this look allows.

        `values` has as many scores of each cell, one a seed, higher is better; cells that could not be scored
        are left out. `items` is None if the scores have no items. `prompts` has the scores of each cell under
        each prompt, as means over the seeds, where prompts are a sample. Of several cells that are shown to
        be better than one, the best is named.
        """
        import numpy as np

        names = [cell for cell in self.at_work if cell in values]
        if len(names) < 2:
            return ()
        scores = np.array([values[name] for name in names], float)
        count = scores.shape[1]
        means = scores.mean(1)
        differences = means[:, None] - means[None, :]
        # Which cells, the rows, may be shown to be better than which others, the columns.
        is_tested = ~np.eye(len(names), dtype=bool)
        if self.baseline is not None:
            is_tested[[name != self.baseline for name in names]] = False
        pair_variance, seed_degrees = self._moderated(scores, is_tested, "seeds")
        seed_variances = pair_variance / count
        prompt_variances, prompt_degrees = np.zeros_like(seed_variances), math.inf
        if prompts:
            of_prompts = np.array([prompts[name] for name in names], float)
            pair_variance, prompt_degrees = self._moderated(
                of_prompts, is_tested, "prompts"
            )
            prompt_variances = pair_variance / of_prompts.shape[1]
        item_variances = np.zeros_like(seed_variances)
        item_degrees = np.full_like(seed_variances, np.inf)
        if items is not None:
            item_variances, item_degrees = items(names)
        level = self.level(count)
        # Against the margin, in standard errors; the sources of one pair as in `EstimatedDifference`.
        of_factors = [
            (seed_variances, seed_degrees),
            (prompt_variances, prompt_degrees),
        ]
        limits = reach(of_factors, (item_variances, item_degrees), level)
        # Where nothing varies, nothing is known of what is chance.
        varies = seed_variances + prompt_variances + item_variances > _NO_SPREAD
        is_shown = is_tested & varies & (differences - self.margin > limits)
        claims = []
        for worse in np.flatnonzero(is_shown.any(0)):
            better = max(
                np.flatnonzero(is_shown[:, worse]),
                key=lambda cell: differences[cell, worse],
            )
            pair = better, worse
            sources = (
                Source(float(seed_variances[pair]), float(seed_degrees)),
                Source(float(item_variances[pair]), float(item_degrees[pair])),
                Source(float(prompt_variances[pair]), float(prompt_degrees)),
            )
            varying = tuple(
                source for source in sources if source.variance > _NO_SPREAD
            )
            estimate = EstimatedDifference(float(differences[pair]), varying)
            p_value = min(1.0, estimate.p_above(self.margin) * self.error_rate / level)
            at_least = estimate.value - estimate.error * estimate.critical(level)
            claims.append(
                Claim(
                    names[worse],
                    names[better],
                    count,
                    estimate.value,
                    at_least,
                    p_value,
                )
            )
        self.claims += claims
        return tuple(claims)

    def _moderated(
        self, scores: Floats, is_tested: Bools, factor: Factor
    ) -> tuple[Floats, float]:
        """Return the moderated variances of the pairs' differences over a factor, and their degrees.

        `scores` are `(cells, seeds)`, or `(cells, prompts)`.
        """
        degrees = scores.shape[1] - 1.0
        variances = pair_variances(scores)
        if not is_tested.any():
            return variances, degrees
        # A baseline that varies more than the others is in all pairs that are tested, and in few of all.
        shared = Source(
            float(variances[is_tested].mean()), degrees * _effective(scores)
        )
        before = self._shared.get(factor)
        if before is None or shared.degrees >= before.degrees:
            before = self._shared[factor] = shared
        prior = PRIOR_DEGREES if factor == "seeds" else PRIOR_DEGREES_OF_PROMPTS
        total = prior + degrees
        moderated = (prior * before.variance + degrees * variances) / total
        return moderated, min(total, before.degrees)


def _effective(scores: Floats) -> float:
    """Return the number of cells, less one, from whose residuals a common variance is known, at least 1.

    It is that of cells of equal spread which would know it as well (Satterthwaite, 1946): a cell whose seeds
    vary more than all others' decides the variance almost alone.
    """
    cells = len(scores)
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    if not squares.any():
        return cells - 1.0
    return max(
        1.0, (cells - 1) / cells * float(squares.sum() ** 2 / (squares**2).sum())
    )


def pair_variances(scores: Floats) -> Floats:
    """Return the sample variance over seeds of the differences of each pair of rows, `(cells, cells)`."""
    import numpy as np

    residuals = scores - scores.mean(1, keepdims=True)
    covariances = residuals @ residuals.T / (scores.shape[1] - 1)
    variances = np.diag(covariances)
    of_pairs: Floats = variances[:, None] + variances[None, :] - 2 * covariances
    return np.maximum(of_pairs, 0.0)


def reach(
    factors: Sequence[tuple[Floats, float]], items: tuple[Floats, Floats], level: float
) -> Floats:
    """Return what estimates exceed with probability `level`; see `EstimatedDifference.critical`.

    `factors`, such as seeds, and `items` are variances of the estimates and their degrees of freedom.
    """
    import numpy as np
    from scipy import special

    of_items, item_degrees = items
    squares: Floats = np.zeros_like(of_items)
    for variances, degrees in factors:
        squares = squares + variances * special.stdtrit(degrees, level) ** 2
    squares = squares + of_items * special.stdtrit(item_degrees, level) ** 2
    return np.sqrt(squares)
