"""Sequential test that stops cells of a study while it runs, with one error rate for the whole study.

A look is made when every cell that is still run has its first n seeds. At a look, each pair of cells is tested:
is one worse than the other by more than the margin? A cell for which this is shown gets no further seeds.

- The estimate is the mean of the paired differences d(s) over the n seeds. Its variance has two sources, as
  in `sentbed_report.statistics.significance`: the seeds and the items. The items are the same at every look,
  so that further seeds do not reduce the variance that is due to the items.
- A sample variance of two or three seeds is unreliable, so the variance of a pair is moderated (Smyth, 2004):
  s2 = (d0 s0 + (n - 1) s) / (d0 + n - 1). Here s is the pair's sample variance and s0 the mean of s over all
  tested pairs. The prior has d0 = 3 degrees of freedom, since the standard deviations of cells may well differ
  by a factor of 2. The mean s0 has (n - 1)(m - 1) degrees of freedom, where m is the effective number of cells
  (Satterthwaite, 1946). The moderated variance s2 has d0 + n - 1 degrees, but at most as many as s0.
- If the study has several prompts, they are a third source of variance. V_prompts is computed from the
  differences under each prompt, averaged over the seeds so far: their variance divided by the number of prompts.
  It is moderated in the same way, with d0 = 4. The differences d(s) are then means over the prompts, and no
  interaction is subtracted from the variance of the items. If a prompt is added, the scores of all seeds
  change. The cells are then looked at anew, which takes another share of the error rate.
- The error rate is distributed over the looks (`spending.py`), and at each look equally over all possible
  claims (Bonferroni). If the best cell is sought, these are all ordered pairs of cells. If cells are compared
  with the baseline, there is one claim per other cell. If the error rate covers only errors about the best cell
  (`promise`), there is also one claim per other cell: that the best cell is worse than this cell.
  By the union bound, the probability that any claim of the study is wrong, at any look, is at most the error
  rate, however the scores of cells, seeds and items depend on each other. This assumes that differences are
  about normal, and that the variances of cells differ no more than d0 allows.

The looks are made in the order of the recipe's seeds, and each needs all its runs. Decisions therefore depend on
the scores alone, not on the order in which processes finish runs, nor on interruptions.
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
"""Random factor of a study, over whose levels scores vary."""

ItemVariances: TypeAlias = "Callable[[Sequence[str]], tuple[Floats, Floats]]"
"""Function from the names of cells to two `(cells, cells)` arrays: the variance due to the items of the
difference of each pair of cells, and the degrees of freedom of this variance."""
PRIOR_DEGREES = 3.0
"""d0 of the variance over seeds."""
PRIOR_DEGREES_OF_PROMPTS = 4.0
"""d0 of the variance over prompts."""
_NO_SPREAD = 1e-18
"""Variances up to this are rounding errors; they count as 0."""


@attrs.frozen(eq=False)
class _PairVariances:
    """Variance of the estimated difference of each pair of cells that is due to one source."""

    variances: Floats
    """Variance for each pair, `(cells, cells)`."""
    degrees: Floats
    """Degrees of freedom of each variance, `(cells, cells)`."""

    def source_of(self, pair: tuple[int, int]) -> Source:
        """Return the variance of one pair with its degrees of freedom."""
        return Source(float(self.variances[pair]), float(self.degrees[pair]))


@attrs.define(eq=False)
class SequentialTest:
    """State of the test of one study: the cells that are still run, and the claims so far."""

    cells: tuple[str, ...]
    """All cells that are tested."""
    looks: tuple[int, ...]
    """Number of seeds at each look, ascending, at least 2."""
    error_rate: float = 0.05
    """Largest probability, in (0, 1), that any claim is wrong; `promise` says which claims count."""
    margin: float = 0.0
    """Only a cell that is worse by more than this, in the unit of the score, is claimed to be worse."""
    baseline: str | None = None
    """Cell with which all others are compared; None to compare every pair."""
    selected_from: int = 0
    """Number of cells from which `cells` were selected by their scores; the error rate is corrected for all of
    them. 0 if there was no selection."""
    promise: Promise = "all"
    """Which claims the error rate covers. `all`: every claim; `best`: only claims that a best cell is worse
    than another cell."""
    shares: Mapping[int, float] = attrs.field(factory=dict)
    """Number of seeds at a look -> share of the look in the error rate; by default all looks have equal
    shares."""
    claims: list[Claim] = attrs.field(factory=list, init=False)
    """Claims of all looks so far."""
    _common: dict[Factor, Source] = attrs.field(factory=dict, init=False)
    """Factor -> s0: mean variance of all tested pairs, with its degrees of freedom."""

    @property
    def at_work(self) -> tuple[str, ...]:
        """Cells that have not been shown to be worse than another cell."""
        worse = {claim.cell for claim in self.claims}
        return tuple(cell for cell in self.cells if cell not in worse)

    @property
    def possible(self) -> int:
        """Number of possible claims at a look. The error rate of the look is distributed over them."""
        count = max(self.selected_from, len(self.cells))
        if self.baseline is None and self.promise == "all":
            return max(1, count * (count - 1))
        # The best cell, or the baseline, is compared with each of the others.
        return max(1, count - 1)

    def level(self, seeds: int) -> float:
        """Return the significance level of a single test at the look with this number of seeds."""
        share = self.shares[seeds] if self.shares else 1 / len(self.looks)
        return self.error_rate * share / self.possible

    def look(
        self,
        values: Mapping[str, Sequence[float]],
        items: ItemVariances | None = None,
        prompts: Mapping[str, Sequence[float]] | None = None,
    ) -> tuple[Claim, ...]:
        """Test the cells after further seeds; add and return the claims of this look.

        If several cells are shown to be better than a cell, the claim names the best of them.

        Args:
            values: Cell -> score under each seed so far; higher is better. Cells without scores are left out.
            items: Function that computes the variances due to the items; None if a score has no items.
            prompts: Cell -> score under each prompt, averaged over the seeds; None if prompts are no source of
                variance.
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
        total = of_seeds.variances + of_prompts.variances + of_items.variances
        # Without any variance, nothing tells how much of a difference is chance.
        has_variance = total > _NO_SPREAD
        is_shown = is_tested & has_variance & (differences - self.margin > bounds)

        claims = []
        for worse in np.flatnonzero(is_shown.any(0)):
            shown = np.where(is_shown[:, worse], differences[:, worse], -np.inf)
            better = int(shown.argmax())
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
        """Return `(cells, cells)`: whether it is tested if the row's cell is better than the column's."""
        import numpy as np

        is_tested = ~np.eye(len(names), dtype=bool)
        if self.baseline is not None:
            is_baseline = np.array(names) == self.baseline
            is_tested[~is_baseline] = False
        return is_tested

    def _moderated(
        self,
        scores: Floats,
        is_tested: Bools,
        factor: Factor,
    ) -> _PairVariances:
        """Return the moderated variance of each pair's mean difference over the levels of a factor.

        `scores` are `(cells, seeds)` or `(cells, prompts)`.
        """
        import numpy as np

        count = scores.shape[1]
        degrees = count - 1.0
        variances = pair_variances(scores)
        if not is_tested.any():
            return _PairVariances(variances / count, np.full_like(variances, degrees))

        # Only tested pairs count. If cells are compared with a baseline that varies more than they do, every
        # tested pair varies more, but few of all pairs do.
        common = Source(
            float(variances[is_tested].mean()),
            degrees * _effective_cells_less_one(scores),
        )
        # A later look has fewer cells, so an earlier estimate may have more degrees of freedom.
        before = self._common.get(factor)
        if before is not None and before.degrees > common.degrees:
            common = before
        self._common[factor] = common

        prior = PRIOR_DEGREES if factor == "seeds" else PRIOR_DEGREES_OF_PROMPTS
        total = prior + degrees
        moderated = (prior * common.variance + degrees * variances) / total
        degrees_of_pairs = np.full_like(variances, min(total, common.degrees))
        return _PairVariances(moderated / count, degrees_of_pairs)


def _estimate(difference: float, sources: Sequence[Source]) -> EstimatedDifference:
    """Return an estimated difference; sources without variance are left out."""
    varying = tuple(source for source in sources if source.variance > _NO_SPREAD)
    return EstimatedDifference(difference, varying)


def _effective_cells_less_one(scores: Floats) -> float:
    """Return the effective number of cells minus one, at least 1.

    The effective number of cells is the number of equally varying cells that would estimate the common variance
    as precisely (Satterthwaite, 1946). It is small if one cell varies far more over its seeds than the others,
    since this cell determines the variance almost alone.
    """
    cells = len(scores)
    residuals = scores - scores.mean(1, keepdims=True) - scores.mean(0) + scores.mean()
    squares = (residuals**2).sum(1)
    if not squares.any():
        return cells - 1.0

    effective = float(squares.sum() ** 2 / (squares**2).sum())
    return max(1.0, (cells - 1) / cells * effective)


def pair_variances(scores: Floats) -> Floats:
    """Return the sample variance over the columns of the difference of each pair of rows, `(cells, cells)`."""
    import numpy as np

    residuals = scores - scores.mean(1, keepdims=True)
    covariances = residuals @ residuals.T / (scores.shape[1] - 1)
    variances = np.diag(covariances)
    of_pairs: Floats = variances[:, None] + variances[None, :] - 2 * covariances
    return np.maximum(of_pairs, 0.0)


def _bounds(sources: Sequence[_PairVariances], level: float) -> Floats:
    """Return the critical difference of each pair at a significance level, `(cells, cells)`.

    If the cells of a pair do not differ, the estimate exceeds the critical difference with probability `level`.
    `EstimatedDifference.critical` computes the same for one pair.
    """
    import numpy as np
    from scipy import special

    squares: Floats = np.zeros_like(sources[0].variances)
    for source in sources:
        critical = special.stdtrit(source.degrees, level)
        squares = squares + source.variances * critical**2
    return np.sqrt(squares)
