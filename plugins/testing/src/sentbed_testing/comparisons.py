"""Distances between results, and assertions on them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Arrays: TypeAlias = "Mapping[str, NDArray[Any]]"

NOTHING = 1e-5
"""A gradient below this share of the whole one is rounding: that of the keys' biases, to which a softmax is
blind, or of the weights of attention over one token."""


def at_most(
    rule: str, case: str, what: str, figure: float, bound: float, then: str
) -> None:
    """Raise `AssertionError` with rule, case, figure, bound and advice if `figure` exceeds `bound`."""
    # Negated, so that NaN fails.
    if not figure <= bound:
        raise AssertionError(
            f"{rule}: {case}: {what} by {figure:.3g}, allowed {bound:.3g}; {then}"
        )


def holds(rule: str, case: str, holding: bool, message: str) -> None:
    """Raise `AssertionError` with rule and case if `holding` is false."""
    if not holding:
        raise AssertionError(f"{rule}: {case}: {message}")


def apart(actual: NDArray[Any], reference: NDArray[Any]) -> float:
    """Return the largest difference, as a share of the largest absolute value of `reference`."""
    import numpy as np

    if actual.shape != reference.shape:
        return math.inf
    largest = float(np.abs(reference).max(initial=0))
    return float(np.abs(actual - reference).max(initial=0)) / (largest or 1.0)


def norm(arrays: Arrays) -> float:
    """Return the L2 norm of all arrays together."""
    import numpy as np

    return math.sqrt(
        sum(float((value.astype(np.float64) ** 2).sum()) for value in arrays.values())
    )


def differences(actual: Arrays, reference: Arrays) -> dict[str, NDArray[np.float64]]:
    """Return `actual - reference` for each name that both have."""
    import numpy as np

    return {
        name: actual[name].astype(np.float64) - value.astype(np.float64)
        for name, value in reference.items()
        if name in actual and actual[name].shape == value.shape
    }


def farthest(actual: Arrays, reference: Arrays, floor: float) -> tuple[float, str]:
    """Return the largest `|actual - reference| / |reference|` over the names, in L2 norms, and where it is.

    An array whose norm is below `floor` of that of all is measured by that share: there, what is left after
    terms have cancelled is rounding. A name or shape that only one of them has is infinitely far.
    """
    least = floor * norm(reference)
    worst, where = 0.0, ""
    missing = sorted(actual.keys() ^ reference.keys())
    missing += [
        name
        for name, value in reference.items()
        if name in actual and actual[name].shape != value.shape
    ]
    if missing:
        return math.inf, missing[0]
    for name, value in differences(actual, reference).items():
        share = norm({name: value}) / (max(norm({name: reference[name]}), least) or 1.0)
        if not share <= worst:
            worst, where = share, name
    return worst, where


def without_gradient(gradients: Arrays) -> set[str]:
    """Return the names of parameters whose gradient is only rounding."""
    whole = norm(gradients)
    return {
        name
        for name, value in gradients.items()
        if norm({name: value}) <= NOTHING * whole
    }


def without(weights: Arrays, parameters: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return saved weights without those of `parameters`, whose names end in the names in the file."""
    return {
        key: value
        for key, value in weights.items()
        if not any(name.endswith(f".{key.partition(':')[2]}") for name in parameters)
    }
