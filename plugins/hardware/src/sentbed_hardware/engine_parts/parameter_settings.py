"""The learning rate and weight decay that a loss sets for its own parameters."""

from __future__ import annotations

from collections.abc import Mapping

from sentbed import PluginError, RunError
from sentbed.helpers import full_name
from sentbed.protocols import Loss, Optimizer, ParameterSettings
from torch import nn


def loss_parameter_settings(
    module: nn.Module, loss: Loss
) -> dict[str, ParameterSettings]:
    """Return the `parameter_settings` of a loss's module and its submodules, as `loss.NAME` -> settings.

    Raises:
        PluginError: if there is no parameter with the name.
    """
    parameters = dict(module.named_parameters())
    settings: dict[str, ParameterSettings] = {}
    for place, part in module.named_modules():
        for name, value in getattr(part, "parameter_settings", {}).items():
            path = name
            if place:
                path = f"{place}.{name}"
            if path not in parameters:
                raise PluginError(
                    f"{full_name(loss)} built a module with `parameter_settings` of `{path}`, which is no "
                    "parameter of it"
                )

            settings[f"loss.{path}"] = value

    return settings


def rate_factor(settings: ParameterSettings, optimizer: Optimizer) -> float:
    """Return the multiplier of the optimiser's learning rate for a parameter with these settings."""
    if settings.lr is None:
        return 1.0

    return settings.lr / optimizer.lr


def require_decay(
    settings: Mapping[str, ParameterSettings], optimizer: Optimizer
) -> None:
    """Raise `RunError` if a parameter's settings have a weight decay, and the optimiser does not support one."""
    for name, special in settings.items():
        if special.weight_decay is not None and not hasattr(optimizer, "weight_decay"):
            raise RunError(
                f"the loss's parameter `{name}` has its own weight decay, and the optimizer "
                f"`{optimizer.name}` has no `weight_decay`; take it out of the loss, or use `adamw`"
            )
