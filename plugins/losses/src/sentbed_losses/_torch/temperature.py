"""The temperature of a contrastive loss."""

from __future__ import annotations

import math

import torch

from sentbed_losses.temperature import LearnableTemperature


class Temperature(torch.nn.Module):
    """The divisor of similarities: a number, or a parameter that holds its logarithm."""

    def __init__(self, temperature: float | LearnableTemperature) -> None:
        super().__init__()
        self.learned = isinstance(temperature, LearnableTemperature)
        if isinstance(temperature, LearnableTemperature):
            self.log = torch.nn.Parameter(torch.tensor(math.log(temperature.initial), dtype=torch.float32))
            self.bounds = math.log(temperature.min), math.log(temperature.max)
        else:
            self.fixed = temperature

    def forward(self) -> torch.Tensor | float:
        """Return the temperature: a float, or a scalar within the bounds."""
        if not self.learned:
            return self.fixed
        # Outside the bounds a clamp's gradient is 0, so the parameter could never come back.
        bounded = self.log.detach().clamp(*self.bounds) + (self.log - self.log.detach())
        return bounded.exp()
