"""The learning rates that a loss sets for its own parameters."""

from __future__ import annotations

from sentbed import PluginError
from sentbed.helpers import full_name
from sentbed.protocols import Training
from torch import nn


def rate_factors(module: nn.Module, training: Training) -> dict[str, float]:
    """Return the multiplier of the optimiser's learning rate for each parameter with a rate of its own.

    The names are `loss.NAME`. `module` is that of the loss; see `Loss.build` for its `learning_rates`.

    Raises:
        PluginError: if there is no parameter with the name.
    """
    parameters = dict(module.named_parameters())
    factors = {}
    for place, part in module.named_modules():
        for name, rate in getattr(part, "learning_rates", {}).items():
            path = name
            if place:
                path = f"{place}.{name}"
            if path not in parameters:
                raise PluginError(
                    f"{full_name(training.loss)} built a module with `learning_rates` of `{path}`, which is no "
                    "parameter of it"
                )

            factors[f"loss.{path}"] = rate / training.optimizer.lr

    return factors
