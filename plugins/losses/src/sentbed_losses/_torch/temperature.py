"""Modules that return the temperature of a loss."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class FixedTemperature(nn.Module):
    """A temperature that is not learned."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self) -> float:
        """Return the temperature."""
        return self.temperature


class LearnedTemperature(nn.Module):
    """A learned temperature; the arguments are the fields of `sentbed_losses.temperature.LearnableTemperature`.

    The name of its torch parameter is `log`, `value` or `inverse`.
    """

    def __init__(
        self,
        initial: float,
        minimum: float,
        maximum: float,
        parameter: str,
        lr: float | None,
    ) -> None:
        super().__init__()
        self.parameter = parameter
        bounds = self._to_parameter(minimum), self._to_parameter(maximum)
        self.bounds = min(bounds), max(bounds)
        value = torch.tensor(self._to_parameter(initial), dtype=torch.float32)
        self.register_parameter(parameter, nn.Parameter(value))
        self.learning_rates: dict[str, float] = {}
        if lr is not None:
            self.learning_rates[parameter] = lr

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
