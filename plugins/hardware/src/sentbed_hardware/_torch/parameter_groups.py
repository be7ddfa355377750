"""Parameter groups of an optimiser for parameters of the loss with their own learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sentbed_hardware._common.tensor_files import Tensors


def separate(
    optimizer: torch.optim.Optimizer,
    parameters: Tensors,
    factors: Mapping[str, float],
) -> list[float]:
    """Move each parameter that is named in `factors` into its own parameter group.

    Returns the multiplier of the learning rate for each group of the optimiser.
    """
    groups = optimizer.param_groups
    for name in factors:
        parameter = parameters[name]
        former = next(group for group in groups if _has(group, parameter))
        others = [other for other in former["params"] if other is not parameter]
        former["params"] = others
        # Settings of the former group are kept, since a component may give each group its own.
        optimizer.add_param_group({**former, "params": [parameter]})

    groups[:] = [group for group in groups if group["params"]]
    return [1.0] * (len(groups) - len(factors)) + list(factors.values())


def _has(group: Mapping[str, Any], parameter: Tensor) -> bool:
    """Return whether a parameter is in a group; `in` would compare the values of tensors."""
    return any(other is parameter for other in group["params"])
