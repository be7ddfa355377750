"""Modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentbed.protocols import LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


class Parts(nn.Module):
    """Several losses by name, each with its weight and, if it has one, its state."""

    def __init__(
        self, losses: Mapping[str, nn.Module], weights: Sequence[float]
    ) -> None:
        super().__init__()
        self.names = tuple(losses)
        self.weights = tuple(weights) or (1.0,) * len(losses)
        self.losses = nn.ModuleList(losses.values())

    def total(
        self,
        inputs: Sequence[Columns],
        state: Mapping[str, Tensor] | None,
    ) -> LossOutput:
        """Return the weighted sum, given the inputs of each loss and the states of all."""
        losses = []
        metrics: dict[str, Tensor] = {}
        after: dict[str, Tensor] = {}
        parts = zip(self.names, self.weights, self.losses, inputs, strict=True)
        for name, weight, loss, inputs_of_loss in parts:
            arguments = [inputs_of_loss]
            if state is not None and hasattr(loss, "initial_state"):
                arguments.append(_of_part(name, state))
            output: LossOutput = loss(*arguments)

            losses.append(weight * output.loss)
            metrics[name] = output.loss.detach()
            metrics |= named_after(name, output.metrics)
            after |= named_after(name, output.state or {})
        total = torch.stack(losses).sum()
        if state is None:
            return LossOutput(total, metrics)
        return LossOutput(total, metrics, after)


class StatefulParts(Parts):
    """Losses some of which have a state; only a stateful loss may have `initial_state`."""

    def initial_state(self) -> dict[str, Tensor]:
        """Return the first states of the losses, as `NAME.KEY`."""
        states: dict[str, Tensor] = {}
        for name, loss in zip(self.names, self.losses, strict=True):
            module: Any = loss
            if hasattr(module, "initial_state"):
                states |= named_after(name, module.initial_state())
        return states


def named_after(name: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of a loss as `NAME.KEY`."""
    return {f"{name}.{key}": value for key, value in values.items()}


def _of_part(name: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of a loss among those of all, by their own keys."""
    own_values = {}
    for key, value in values.items():
        if key.startswith(f"{name}."):
            own_values[key.removeprefix(f"{name}.")] = value
    return own_values
