"""Groups of an optimiser for the loss's parameters that have settings of their own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed.protocols import Optimizer, ParameterSettings

from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware.engine_parts.training_settings import rate_factor, require_decay


def separate(
    optimizer: torch.optim.Optimizer,
    parameters: Tensors,
    settings: Mapping[str, ParameterSettings],
    component: Optimizer,
) -> list[float]:
    """Move each parameter with settings into a group of its own.

    Return for each group of the optimiser what the learning rate of a step is multiplied by.

    Raises:
        RunError: if a parameter is to have a weight decay, and the optimiser has none.
    """
    require_decay(settings, component)
    groups = optimizer.param_groups
    for name, special in settings.items():
        parameter = parameters[name]
        for former in list(groups):
            kept = [other for other in former["params"] if other is not parameter]
            if len(kept) == len(former["params"]):
                continue

            former["params"] = kept
            # Not the optimiser's defaults: a component may give its groups other settings.
            group = {**former, "params": [parameter]}
            if special.weight_decay is not None:
                group["weight_decay"] = special.weight_decay
            optimizer.add_param_group(group)

    groups[:] = [group for group in groups if group["params"]]
    factors = [1.0] * (len(groups) - len(settings))
    for special in settings.values():
        factors.append(rate_factor(special, component))

    return factors
