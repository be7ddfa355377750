"""An estimated difference whose variance has several sources, each with degrees of freedom of its own.

The critical value is Banerjee's (1960): the root mean square of the critical values of Student's t for each
source, weighted by variance. It keeps the error rate below the level for all true variances; with one source
it is Student's t. The method of Cochran and Cox (1950) does not: if a source with few degrees of freedom has
the largest variance, its error rate is up to 2.1 % at a level of 1 % (with two seeds).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import attrs

_LEAST = 1e-300
"""Smallest p-value."""


@attrs.frozen
class Source:
    """A source of variance of an estimate."""

    variance: float
    """Variance of the estimate due to this source, above 0."""
    degrees: float
    """Degrees of freedom of that variance; `math.inf` if it is known exactly."""


@attrs.frozen
class EstimatedDifference:
    """A difference between two cells, in the unit of their score."""

    value: float
    sources: tuple[Source, ...]

    @property
    def variance(self) -> float:
        """Variance of the estimate."""
        return sum(source.variance for source in self.sources)

    @property
    def error(self) -> float:
        """Standard error."""
        return math.sqrt(self.variance)

    def critical(self, level: float) -> float:
        """Return the one-sided critical value at `level` < 0.5, in standard errors."""
        from scipy import special

        if not self.sources:
            return 0.0
        squares = 0.0
        for source in self.sources:
            squares += (
                source.variance * float(special.stdtrit(source.degrees, level)) ** 2
            )
        return math.sqrt(squares / self.variance)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the two-sided interval."""
        reach = self.error * self.critical((1 - confidence) / 2)
        return self.value - reach, self.value + reach

    def p_value(self) -> float:
        """Return the two-sided p-value of no difference, from 1e-300 to 1."""
        return min(1.0, 2 * self._beyond(abs(self.value)))

    def p_above(self, margin: float) -> float:
        """Return the one-sided p-value against a difference of at most `margin`: small if it is larger."""
        return self._beyond(self.value - margin)

    def p_below(self, margin: float) -> float:
        """Return the one-sided p-value against a difference of at least `margin`: small if it is smaller."""
        return self._beyond(margin - self.value)

    def _beyond(self, distance: float) -> float:
        """Return the one-sided p-value of a distance from the estimate."""
        if self.error <= 0:
            if distance == 0:
                return 0.5
            return _LEAST if distance > 0 else 1.0
        if distance < 0:
            return 1 - self._beyond(-distance)
        return _level(self.critical, distance / self.error)


def _level(critical: Callable[[float], float], value: float) -> float:
    """Return the level, from 1e-300 to 0.5, with this critical value, to 13 digits, by bisection."""
    low, high = math.log(_LEAST), math.log(0.5)
    while high - low > 1e-13:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if critical(math.exp(middle)) > value:
            low = middle
        else:
            high = middle
    return math.exp(high)
