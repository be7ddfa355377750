"""Distances between arrays of results, and assertions on them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"

NOTHING = 1e-5
"""Share of the norm of the whole gradient below which a parameter's gradient is only rounding: that of the
keys' biases, which a softmax does not depend on, or of the weights of attention over one token."""
FLOOR = 1e-2
"""Least scale for comparing an array, as a share of the norm of all arrays."""


@attrs.frozen
class Comparison:
    """Assertions of a rule in a case, whose messages begin with both."""

    rule: str
    case: str

    def require(self, is_right: bool, message: str) -> None:
        """Raise `AssertionError` with this message unless `is_right`."""
        if not is_right:
            raise AssertionError(f"{self.rule}: {self.case}: {message}")

    def at_most(self, what: str, figure: float, bound: float, advice: str) -> None:
        """Raise `AssertionError` with figure, bound and advice if `figure` exceeds `bound`, or is NaN."""
        self.require(
            figure <= bound, f"{what} by {figure:.3g}, allowed {bound:.3g}; {advice}"
        )

    def same_number(
        self, what: str, actual: float, expected: float, bound: float, advice: str = ""
    ) -> None:
        """Compare two numbers, relative to `expected` or absolutely if that is below 1."""
        difference = abs(actual - expected) / max(1.0, abs(expected))
        values = f"found {actual!r}, expected {expected!r}"
        self.at_most(what, difference, bound, "; ".join(filter(None, (values, advice))))

    def same_vectors(
        self,
        what: str,
        actual: NDArray[Any],
        expected: NDArray[Any],
        bound: float,
        advice: str,
    ) -> None:
        """Compare vectors relative to the largest value of `expected`."""
        self.at_most(what, apart(actual, expected), bound, advice)

    def same_arrays(
        self,
        what: str,
        actual: Arrays,
        expected: Arrays,
        bound: float,
        advice: str = "",
        floor: float = FLOOR,
    ) -> None:
        """Compare arrays of the same name, as `farthest` does."""
        worst, where = farthest(actual, expected, floor)
        place = f"the farthest is `{where}`"
        self.at_most(what, worst, bound, "; ".join(filter(None, (place, advice))))


def apart(actual: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the largest difference over the largest absolute value of `reference`; infinite for other shapes."""
    import numpy as np

    if actual.shape != reference.shape:
        return math.inf
    largest = float(np.abs(reference).max(initial=0))
    return float(np.abs(actual - reference).max(initial=0)) / (largest or 1.0)


def norm(arrays: Arrays) -> float:
    """Return the L2 norm of all arrays together."""
    import numpy as np

    total = 0.0
    for value in arrays.values():
        total += float((value.astype(np.float64) ** 2).sum())
    return math.sqrt(total)


def differences(actual: Arrays, reference: Arrays) -> dict[str, NDArray[np.float64]]:
    """Return `actual - reference` for each name that both have."""
    import numpy as np

    subtracted = {}
    for name, value in reference.items():
        if name in actual and actual[name].shape == value.shape:
            subtracted[name] = actual[name].astype(np.float64) - value
    return subtracted


def farthest(actual: Arrays, reference: Arrays, floor: float) -> tuple[float, str]:
    """Return the largest relative difference `|actual - reference| / |reference|` in L2 norms, and its name.

    The divisor is at least `floor` times the norm of all arrays: smaller arrays are often only rounding. A
    name or shape that only one side has is infinitely far.
    """
    compared = differences(actual, reference)
    for name in sorted(actual.keys() | reference.keys()):
        if name not in compared:
            return math.inf, name

    least = floor * norm(reference)
    worst, where = 0.0, ""
    for name, value in compared.items():
        scale = max(norm({name: reference[name]}), least) or 1.0
        share = norm({name: value}) / scale
        if math.isnan(share):
            return share, name
        if share > worst:
            worst, where = share, name

    return worst, where


def without_gradient(gradients: Arrays) -> set[str]:
    """Return the names of parameters whose gradient is only rounding."""
    least = NOTHING * norm(gradients)
    return {name for name, value in gradients.items() if norm({name: value}) <= least}


def without(weights: Arrays, parameters: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return saved weights without those of `parameters`, whose names end in the names used in the file."""
    kept = {}
    for key, value in weights.items():
        ending = f".{key.partition(':')[2]}"
        if not any(name.endswith(ending) for name in parameters):
            kept[key] = value
    return kept
