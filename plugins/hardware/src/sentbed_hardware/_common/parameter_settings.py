"""Settings of a loss's own parameters, where they are not optimised as the stage's others."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from sentbed import RunError
from sentbed.helpers import fault, returned
from sentbed.protocols import Loss, Optimizer, ParameterSettings


def settings_of(module: torch.nn.Module, loss: Loss, prefix: str) -> dict[str, ParameterSettings]:
    """Return the settings of those parameters of a loss's module that have some.

    They are by the parameters' names in the module, with `prefix` before them.

    Raises:
        PluginError: if the module names no parameter of its own, or has no settings for it.
    """
    settings: dict[str, ParameterSettings] = {}
    for place, part in module.named_modules():
        for name, value in getattr(part, "parameter_settings", {}).items():
            path = f"{place}.{name}" if place else name
            settings[path] = returned(value, ParameterSettings, loss, "build")
    parameters = dict(module.named_parameters())
    for path in settings:
        if path not in parameters:
            raise fault(loss, "build", f"built a module with `parameter_settings` of `{path}`, which is none")
    return {prefix + path: special for path, special in settings.items()}


def rate_factor(settings: ParameterSettings, optimizer: Optimizer) -> float:
    """Return what the learning rate of a step is multiplied by for a parameter with these settings."""
    return 1.0 if settings.lr is None else settings.lr / optimizer.lr


def require_decay(settings: Mapping[str, ParameterSettings], optimizer: Optimizer) -> None:
    """Raise `RunError` if a parameter is to have a weight decay, and the optimiser has none."""
    for name, special in settings.items():
        if special.weight_decay is not None and not hasattr(optimizer, "weight_decay"):
            raise RunError(
                f"the loss's parameter `{name}` has a weight decay of its own, and the optimizer "
                f"`{optimizer.name}` has no `weight_decay`; take it out of the loss, or use `adamw`"
            )
