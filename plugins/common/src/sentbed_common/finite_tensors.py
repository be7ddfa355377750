"""Test whether all numbers of a tensor are finite, in little memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_finite_tensor(tensor: torch.Tensor) -> bool:
    """Whether all numbers are finite; `torch.isfinite` would allocate several masks of the tensor's size."""
    if not tensor.numel():
        return True

    # Both are NaN if any number is.
    least, largest = tensor.detach().aminmax()
    return math.isfinite(least) and math.isfinite(largest)
