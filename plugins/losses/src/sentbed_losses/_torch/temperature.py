"""The temperature of a contrastive loss."""

from __future__ import annotations

import math

import torch

from sentbed_losses.temperature import LearnableTemperature


class Temperature(torch.nn.Module):
    """What similarities are divided by: a number, or a parameter that holds its logarithm."""

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
        # Beyond a bound the gradient of a clamp is 0, and the parameter would stay there for good.
        bounded = self.log.detach().clamp(*self.bounds) + (self.log - self.log.detach())
        return bounded.exp()
