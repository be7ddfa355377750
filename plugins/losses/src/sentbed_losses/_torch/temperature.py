"""The temperature of a contrastive loss."""

from __future__ import annotations

import math

import torch
from sentbed.protocols import ParameterSettings

from sentbed_losses.temperature import LearnableTemperature


class Temperature(torch.nn.Module):
    """The divisor of similarities: a number, or a parameter from which it follows.

    The parameter is called after what it holds: `log`, `value` or `inverse`.
    """

    def __init__(self, temperature: float | LearnableTemperature) -> None:
        super().__init__()
        self.learned = isinstance(temperature, LearnableTemperature)
        if not isinstance(temperature, LearnableTemperature):
            self.fixed = temperature
            return
        self.held = temperature.parameter
        low, high = self._to_parameter(temperature.min), self._to_parameter(temperature.max)
        self.bounds = min(low, high), max(low, high)
        initial = torch.tensor(self._to_parameter(temperature.initial), dtype=torch.float32)
        self.register_parameter(self.held, torch.nn.Parameter(initial))
        self.parameter_settings: dict[str, ParameterSettings] = {}
        if temperature.lr is not None or temperature.weight_decay is not None:
            settings = ParameterSettings(lr=temperature.lr, weight_decay=temperature.weight_decay)
            self.parameter_settings[self.held] = settings

    def forward(self) -> torch.Tensor | float:
        """Return the temperature: a float, or a scalar within the bounds."""
        if not self.learned:
            return self.fixed
        parameter: torch.Tensor = getattr(self, self.held)
        # Outside the bounds a clamp's gradient is 0, so the parameter could never come back.
        bounded = parameter.detach().clamp(*self.bounds) + (parameter - parameter.detach())
        if self.held == "log":
            return bounded.exp()
        if self.held == "inverse":
            return 1 / bounded
        return bounded

    def _to_parameter(self, temperature: float) -> float:
        if self.held == "log":
            return math.log(temperature)
        if self.held == "inverse":
            return 1 / temperature
        return temperature
