"""Modules that return the temperature of a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sentbed_losses.temperature import LearnableTemperature


class FixedTemperature(nn.Module):
    """A temperature that is not learned."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self) -> float:
        """Return the temperature."""
        return self.temperature


class LearnedTemperature(nn.Module):
    """A learned temperature. The name of its torch parameter is `log`, `value` or `inverse`."""

    def __init__(self, settings: LearnableTemperature) -> None:
        super().__init__()
        self.parameter = settings.parameter
        bounds = self._to_parameter(settings.min), self._to_parameter(settings.max)
        self.bounds = min(bounds), max(bounds)
        initial = self._to_parameter(settings.initial)
        value = torch.tensor(initial, dtype=torch.float32)
        self.register_parameter(self.parameter, nn.Parameter(value))
        self.learning_rates: dict[str, float] = {}
        if settings.lr is not None:
            self.learning_rates[self.parameter] = settings.lr

    def forward(self) -> Tensor:
        """Return the temperature, a scalar within the bounds."""
        value: Tensor = getattr(self, self.parameter)
        constant = value.detach()
        # The gradient of `clamp` is 0 outside the bounds, so the parameter could not return to them. So only a
        # constant is clamped, and the gradient flows through the added difference, which is 0.
        bounded = constant.clamp(*self.bounds) + (value - constant)
        if self.parameter == "log":
            return bounded.exp()
        if self.parameter == "inverse":
            return 1 / bounded

        return bounded

    def _to_parameter(self, temperature: float) -> float:
        """Return the value of the parameter for a temperature."""
        if self.parameter == "log":
            return math.log(temperature)
        if self.parameter == "inverse":
            return 1 / temperature

        return temperature


def temperature_module(temperature: float | LearnableTemperature) -> nn.Module:
    """Return a module that returns the temperature when called: a float, or a scalar tensor if it is learned."""
    if isinstance(temperature, LearnableTemperature):
        return LearnedTemperature(temperature)

    return FixedTemperature(temperature)
