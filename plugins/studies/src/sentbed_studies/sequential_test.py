"""Test that stops cells of a study while it runs, with one error rate for the whole study.

At each look (when every running cell has its first n seeds), each pair of cells is tested: is one worse than
the other by more than the margin? A cell for which that is shown gets no further seeds.

- The estimate is the mean over the n seeds of the paired differences d(s). Its variance has two sources, as
  in `sentbed_report.statistics.significance`: the seeds, and the items, which are the same at every look, so
  that further seeds do not reduce their part.
- A sample variance of two or three seeds is unreliable, so the variance of a pair is moderated (Smyth, 2004):
  s2 = (d0 s0 + (n - 1) s) / (d0 + n - 1), where s is the pair's sample variance, s0 the mean over all tested
  pairs, and d0 = 3 degrees of freedom: the standard deviations of cells may well differ by a factor of 2. s2
  has d0 + n - 1 degrees of freedom, but never more than s0, which has (n - 1)(m - 1), m being the effective
  number of cells (Satterthwaite, 1946).
- If the study has several prompts, they are a third source: V_prompts is the variance over the prompts of the
  differences, each averaged over the seeds so far, divided by the number of prompts. It is moderated in the
  same way, with d0 = 4. The scores d(s) are then means over the prompts, and no interaction is subtracted
  from the items' variance. If a prompt is added, the scores of all seeds change, so a new look is
  needed, with its own share of the error rate.
- The error rate is distributed over the looks (`spending.py`), and at each look equally over all claims
  that count (Bonferroni). These are every ordered pair of cells where the best cell is sought; every cell
  where all are compared with the baseline; and where only the best cell is promised to stay, every cell that
  it could wrongly be called worse than.
  By the union bound, the probability that any claim of the study is wrong, at any look, is at most the error
  rate, however the scores of cells, seeds and items depend on each other. This assumes that differences are
  about normal, and that the variances of cells differ no more than d0 allows.

The looks are made in the order of the recipe's seeds and need all runs of a look. Decisions therefore depend
on the scores alone, not on which process ran what when, nor on interruptions.
"""

from __future__ import annotations

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
"""Function from cells to two `(cells, cells)` arrays: for each pair, the variance of its difference that is
due to the items, and that variance's degrees of freedom."""
PRIOR_DEGREES = 3.0
"""d0 of the variance over seeds."""
PRIOR_DEGREES_OF_PROMPTS = 4.0
"""d0 of the variance over prompts."""
_NO_SPREAD = 1e-18
"""Variances up to this are taken for rounding errors, and so for none."""


@attrs.frozen(eq=False)
class _PairVariances:
    """Variance of the estimated difference of each pair that one source adds."""

    variances: Floats
    """`(cells, cells)`."""
    degrees: Floats
    """Degrees of freedom of each variance, `(cells, cells)`."""

    def source_of(self, pair: tuple[int, int]) -> Source:
        """Return variance and degrees of freedom of one pair."""
        return Source(float(self.variances[pair]), float(self.degrees[pair]))


@attrs.define(eq=False)
class SequentialTest:
    """State of the test of one study: the cells that are still run, and the claims so far."""

    cells: tuple[str, ...]
    """All cells that are tested; their number, or `among`, determines how many claims are possible."""
    looks: tuple[int, ...]
    """Number of seeds at each look, ascending, from 2."""
    error_rate: float = 0.05
    """Probability that any claim is wrong, in (0, 1)."""
    margin: float = 0.0
    """Largest difference by which a cell may be worse, in the unit of the score."""
    baseline: str | None = None
    """Cell that all are compared with; None to compare every pair."""
    among: int = 0
    """Number of cells from which `cells` were pre-selected by their scores, so all of them count for the
    correction; 0 without a pre-selection."""
    promise: Promise = "all"
    """Which claims the error rate covers: `all`, or `best`, only claims that a best cell is worse than
    another."""
    shares: Mapping[int, float] = attrs.field(factory=dict)
    """Number of seeds at a look -> its share of the error rate; by default all looks have an equal share."""
    claims: list[Claim] = attrs.field(factory=list, init=False)
    _common: dict[Factor, Source] = attrs.field(factory=dict, init=False)
    """Factor -> the variance common to all pairs, with its degrees of freedom."""

    @property
    def at_work(self) -> tuple[str, ...]:
        """Cells that have not been shown to be worse than another."""
        worse = {claim.cell for claim in self.claims}
        return tuple(cell for cell in self.cells if cell not in worse)

    @property
    def possible(self) -> int:
        """Number of possible claims at a look, by which its error rate is divided."""
        count = max(self.among, len(self.cells))
        if self.baseline is None and self.promise == "all":
            return max(1, count * (count - 1))
        # A best cell, or the baseline, is compared with each of the others.
        return max(1, count - 1)

    def level(self, seeds: int) -> float:
        """Return the level of one test at the look with this number of seeds."""
        share = self.shares[seeds] if self.shares else 1 / len(self.looks)
        return self.error_rate * share / self.possible

    def look(
        self,
        values: Mapping[str, Sequence[float]],
        items: ItemVariances | None = None,
        prompts: Mapping[str, Sequence[float]] | None = None,
    ) -> tuple[Claim, ...]:
        """Test the cells of `values`; add and return the claims that this look allows.

        `values` has the scores of each cell, one per seed, higher is better; cells without scores are left
        out. `items` is None if the scores have no items. `prompts` has the scores of each cell under each
        prompt, averaged over the seeds, where prompts are a sample. If several cells are shown to be better
        than one, the claim names the best of them.
        """
        import numpy as np

        names = [cell for cell in self.at_work if cell in values]
        if len(names) < 2:
            return ()

        scores = np.array([values[name] for name in names], float)
        means = scores.mean(1)
        differences = means[:, None] - means[None, :]
        is_tested = self._tested_pairs(names)

        no_variance = np.zeros_like(differences)
        no_source = _PairVariances(no_variance, np.full_like(differences, np.inf))
        of_seeds = self._moderated(scores, is_tested, "seeds")
        of_prompts = no_source
        if prompts:
            scores_of_prompts = np.array([prompts[name] for name in names], float)
            of_prompts = self._moderated(scores_of_prompts, is_tested, "prompts")
        of_items = no_source
        if items is not None:
            of_items = _PairVariances(*items(names))

        level = self.level(scores.shape[1])
        bounds = _bounds([of_seeds, of_prompts, of_items], level)
        # Without any variance, it is unknown how much is chance.
        total = of_seeds.variances + of_prompts.variances + of_items.variances
        is_shown = (
            is_tested & (total > _NO_SPREAD) & (differences - self.margin > bounds)
        )

        claims = []
        for worse in np.flatnonzero(is_shown.any(0)):
            better = _best(np.flatnonzero(is_shown[:, worse]), differences[:, worse])
            pair = better, int(worse)
            sources = [
                of_seeds.source_of(pair),
                of_items.source_of(pair),
                of_prompts.source_of(pair),
            ]
            estimate = _estimate(float(differences[pair]), sources)
            p_value = estimate.p_above(self.margin) * self.error_rate / level
            at_least = estimate.value - estimate.error * estimate.critical(level)
            claims.append(
                Claim(
                    names[worse],
                    names[better],
                    scores.shape[1],
                    estimate.value,
                    at_least,
                    min(1.0, p_value),
                )
            )

        self.claims += claims
        return tuple(claims)

    def _tested_pairs(self, names: Sequence[str]) -> Bools:
        """Return for each row whether it is tested to be better than each column, `(cells, cells)`."""
        import numpy as np

        is_tested = ~np.eye(len(names), dtype=bool)
        if self.baseline is not None:
            is_tested[[name != self.baseline for name in names]] = False
        return is_tested

    def _moderated(
        self, scores: Floats, is_tested: Bools, factor: Factor
    ) -> _PairVariances:
        """Return the moderated variances of the pairs' mean differences over a factor.

        `scores` are `(cells, seeds)` or `(cells, prompts)`.
        """
        import numpy as np

        count = scores.shape[1]
        degrees = count - 1.0
        variances = pair_variances(scores)
        if not is_tested.any():
            return _PairVariances(variances / count, np.full_like(variances, degrees))

        # The tested pairs alone: a baseline with a larger variance is in all of them, but in few of all pairs.
        common = Source(
            float(variances[is_tested].mean()),
            degrees * _effective_cells_less_one(scores),
        )
        before = self._common.get(factor)
        # The estimate with more degrees of freedom is kept: fewer cells are left at a later look.
        if before is not None and before.degrees > common.degrees:
            common = before
        self._common[factor] = common

        prior = PRIOR_DEGREES if factor == "seeds" else PRIOR_DEGREES_OF_PROMPTS
        total = prior + degrees
        moderated = (prior * common.variance + degrees * variances) / total
        degrees_of_pairs = np.full_like(variances, min(total, common.degrees))
        return _PairVariances(moderated / count, degrees_of_pairs)


def _best(cells: NDArray[np.intp], differences: Floats) -> int:
    """Return the cell, of `cells`, with the largest difference."""
    return int(max(cells, key=lambda cell: differences[cell]))


def _estimate(difference: float, sources: Sequence[Source]) -> EstimatedDifference:
    """Return a difference with only its sources of variance that are above 0."""
    varying = tuple(source for source in sources if source.variance > _NO_SPREAD)
    return EstimatedDifference(difference, varying)


def _effective_cells_less_one(scores: Floats) -> float:
    """Return the effective number of cells, less one, at least 1.

    That is how many equally varying cells would estimate the common variance as precisely (Satterthwaite,
    1946): if one cell varies far more over its seeds than all others, it determines the variance almost
    alone.
    """
    cells = len(scores)
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    if not squares.any():
        return cells - 1.0

    effective = float(squares.sum() ** 2 / (squares**2).sum())
    return max(1.0, (cells - 1) / cells * effective)


def pair_variances(scores: Floats) -> Floats:
    """Return the sample variance over seeds of the differences of each pair of rows, `(cells, cells)`."""
    import numpy as np

    residuals = scores - scores.mean(1, keepdims=True)
    covariances = residuals @ residuals.T / (scores.shape[1] - 1)
    variances = np.diag(covariances)
    of_pairs: Floats = variances[:, None] + variances[None, :] - 2 * covariances
    return np.maximum(of_pairs, 0.0)


def _bounds(sources: Sequence[_PairVariances], level: float) -> Floats:
    """Return for each pair the bound that its estimate exceeds with probability `level` without a difference.

    See `EstimatedDifference.critical`, for one pair.
    """
    import numpy as np
    from scipy import special

    squares: Floats = np.zeros_like(sources[0].variances)
    for source in sources:
        critical = special.stdtrit(source.degrees, level)
        squares = squares + source.variances * critical**2
    return np.sqrt(squares)
