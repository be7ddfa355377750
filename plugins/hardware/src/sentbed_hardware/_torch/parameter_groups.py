"""Parameter groups of an optimiser for parameters of the loss with their own learning rate or weight decay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sentbed.protocols import Optimizer, ParameterSettings
from torch import Tensor

from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware.engine_parts.parameter_settings import rate_factor, require_decay


def separate(
    optimizer: torch.optim.Optimizer,
    parameters: Tensors,
    settings: Mapping[str, ParameterSettings],
    component: Optimizer,
) -> list[float]:
    """Move each parameter that is named in `settings` into its own parameter group.

    `component` is the component that built the optimiser. Returns the multiplier of the learning rate for each
    group of the optimiser.

    Raises:
        RunError: if the settings of a parameter have a weight decay, and the optimiser supports none.
    """
    require_decay(settings, component)
    groups = optimizer.param_groups
    for name, special in settings.items():
        parameter = parameters[name]
        former = next(group for group in groups if _has(group, parameter))
        others = [other for other in former["params"] if other is not parameter]
        former["params"] = others
        # Settings of the former group are kept, since a component may give each group its own.
        group = {**former, "params": [parameter]}
        if special.weight_decay is not None:
            group["weight_decay"] = special.weight_decay
        optimizer.add_param_group(group)

    groups[:] = [group for group in groups if group["params"]]
    factors = [1.0] * (len(groups) - len(settings))
    for special in settings.values():
        factors.append(rate_factor(special, component))

    return factors


def _has(group: Mapping[str, Any], parameter: Tensor) -> bool:
    """Return whether a parameter is in a group; `in` would compare the values of tensors."""
    return any(other is parameter for other in group["params"])
