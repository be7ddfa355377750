"""Distances between numbers or arrays that two engines computed, and assertions on the distances."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"
"""Weights or gradients by name."""

ROUNDING_SHARE = 1e-5
"""A parameter's gradient counts as rounding error if its norm is at most this share of the whole gradient's norm.

Examples are the biases of attention keys, since they do not change a softmax, and the weights of attention over a
single token."""
LEAST_SCALE = 1e-2
"""Least divisor of an array's difference, as a share of the norm of all arrays.

The usual divisor is the array's own norm."""


@attrs.frozen
class Comparison:
    """Assertions that a rule makes in a test case. Their messages begin with the names of rule and case."""

    rule: str
    case: str

    def require(self, is_right: bool, message: str) -> None:
        """Raise `AssertionError` with this message unless `is_right`."""
        if not is_right:
            raise AssertionError(f"{self.rule}: {self.case}: {message}")

    def at_most(
        self,
        what: str,
        figure: float,
        bound: float,
        advice: str,
    ) -> None:
        """Raise `AssertionError` if `figure` exceeds `bound` or is NaN.

        The message is `WHAT by FIGURE, allowed BOUND; ADVICE`. So `what` is a clause such as `the loss differs`.
        """
        self.require(
            figure <= bound, f"{what} by {figure:.3g}, allowed {bound:.3g}; {advice}"
        )

    def same_number(
        self,
        what: str,
        actual: float,
        expected: float,
        bound: float,
        advice: str = "",
    ) -> None:
        """Compare two numbers. The difference is divided by `expected`, or by 1 if `expected` is smaller."""
        difference = abs(actual - expected) / max(1.0, abs(expected))
        values = f"found {actual!r}, expected {expected!r}"
        self.at_most(what, difference, bound, _with_advice(values, advice))

    def same_vectors(
        self,
        what: str,
        actual: NDArray[Any],
        expected: NDArray[Any],
        bound: float,
        advice: str,
    ) -> None:
        """Compare vectors. The difference is relative to the largest absolute value of `expected`."""
        self.at_most(what, relative_difference(actual, expected), bound, advice)

    def same_arrays(
        self,
        what: str,
        actual: Arrays,
        expected: Arrays,
        bound: float,
        advice: str = "",
        least_scale: float = LEAST_SCALE,
    ) -> None:
        """Compare the arrays of the same name. The largest difference counts; see `farthest`."""
        difference, name = farthest(actual, expected, least_scale)
        place = f"the farthest is `{name}`"
        self.at_most(what, difference, bound, _with_advice(place, advice))


def _with_advice(detail: str, advice: str) -> str:
    return f"{detail}; {advice}" if advice else detail


def relative_difference(actual: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the largest absolute difference, divided by the largest absolute value of `reference`.

    It is infinite if the shapes differ, and absolute if `reference` is all zeros.
    """
    import numpy as np

    if actual.shape != reference.shape:
        return math.inf
    largest = float(np.abs(reference).max(initial=0))
    return float(np.abs(actual - reference).max(initial=0)) / (largest or 1.0)


def norm(arrays: Arrays) -> float:
    """Return the L2 norm of all arrays, concatenated."""
    import numpy as np

    total = 0.0
    for value in arrays.values():
        total += float((value.astype(np.float64) ** 2).sum())
    return math.sqrt(total)


def differences(actual: Arrays, reference: Arrays) -> dict[str, NDArray[np.float64]]:
    """Return `actual - reference` for each name that has an array of the same shape in both."""
    import numpy as np

    subtracted = {}
    for name, value in reference.items():
        if name in actual and actual[name].shape == value.shape:
            subtracted[name] = actual[name].astype(np.float64) - value
    return subtracted


def farthest(
    actual: Arrays,
    reference: Arrays,
    least_scale: float,
) -> tuple[float, str]:
    """Return the largest relative difference between two arrays of the same name, and this name.

    It is `|actual - reference| / |reference|` in L2 norms. The divisor is at least `least_scale` times the norm
    of all arrays, since smaller arrays are often only rounding errors. The difference is infinite if an array is
    missing on one side or has another shape there.
    """
    compared = differences(actual, reference)
    for name in sorted(actual.keys() | reference.keys()):
        if name not in compared:
            return math.inf, name

    least_norm = least_scale * norm(reference)
    largest, name_of_largest = 0.0, ""
    for name, difference in compared.items():
        scale = max(norm({name: reference[name]}), least_norm) or 1.0
        relative = norm({name: difference}) / scale
        if math.isnan(relative):
            return relative, name
        if relative > largest:
            largest, name_of_largest = relative, name

    return largest, name_of_largest


def parameters_without_gradient(gradients: Arrays) -> set[str]:
    """Return the names of the parameters whose gradient counts as rounding error; see `ROUNDING_SHARE`."""
    largest = ROUNDING_SHARE * norm(gradients)
    return {name for name, value in gradients.items() if norm({name: value}) <= largest}


def without_parameters(
    weights: Arrays, parameters: Collection[str]
) -> dict[str, NDArray[Any]]:
    """Return the saved weights, except those of `parameters`.

    Weights have keys `FILE:NAME`. The name of a parameter ends in the name that its weight has in the file.
    """
    kept = {}
    for key, value in weights.items():
        ending = f".{key.partition(':')[2]}"
        if not any(name.endswith(ending) for name in parameters):
            kept[key] = value
    return kept
