"""Modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentbed.protocols import PROGRESS, LossOutput, LossTraits
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


class Parts(nn.Module):
    """The weighted sum of several losses by name, each with its state if it has one.

    Each is given the inputs that it would have alone, by its traits.
    """

    def __init__(
        self,
        losses: Mapping[str, nn.Module],
        weights: Sequence[float],
        traits: Sequence[LossTraits],
    ) -> None:
        super().__init__()
        self.names = tuple(losses)
        self.weights = tuple(weights) or (1.0,) * len(losses)
        self.traits = tuple(traits)
        self.losses = nn.ModuleList(losses.values())

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the losses over the same batch, given the states of all."""
        return self.total([inputs] * len(self.names), state)

    def total(
        self, inputs: Sequence[Columns], state: Mapping[str, Tensor] | None
    ) -> LossOutput:
        """Return the weighted sum, given the inputs of each loss and the states of all."""
        losses = []
        metrics: dict[str, Tensor] = {}
        after: dict[str, Tensor] = {}
        parts = zip(
            self.names, self.weights, self.losses, self.traits, inputs, strict=True
        )
        for name, weight, loss, traits, columns in parts:
            arguments = [_inputs_alone(columns, traits)]
            if state is not None and traits.stateful:
                arguments.append(_of_part(name, state))

            output: LossOutput = loss(*arguments)

            losses.append(weight * output.loss)
            metrics[name] = output.loss.detach()
            metrics |= _named_after(name, output.metrics)
            after |= _named_after(name, output.state or {})

        total = torch.stack(losses).sum()
        if state is None:
            return LossOutput(total, metrics)

        return LossOutput(total, metrics, after)


class StatefulParts(Parts):
    """Losses some of which have a state; only a stateful loss may have `initial_state`."""

    def initial_state(self) -> dict[str, Tensor]:
        """Return the first states of the losses, as `NAME.KEY`."""
        states: dict[str, Tensor] = {}
        parts = zip(self.names, self.losses, self.traits, strict=True)
        for name, loss, traits in parts:
            if traits.stateful:
                module: Any = loss
                states |= _named_after(name, module.initial_state())

        return states


def _inputs_alone(inputs: Columns, traits: LossTraits) -> dict[str, Tensor]:
    """Return the inputs that a loss would have alone: its columns, and perhaps ids of texts and progress."""
    columns = frozenset(inputs)
    if traits.takes is not None:
        columns = traits.needs | traits.takes

    selected = {}
    for name, value in inputs.items():
        column = name.removesuffix(".id")
        is_taken = column in columns
        if name == PROGRESS:
            is_taken = traits.scheduled
        elif name != column:
            is_taken = is_taken and traits.compares_texts

        if is_taken:
            selected[name] = value

    return selected


def _named_after(name: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of a loss as `NAME.KEY`."""
    return {f"{name}.{key}": value for key, value in values.items()}


def _of_part(name: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of a loss among those of all, by their own keys."""
    own_values = {}
    for key, value in values.items():
        if key.startswith(f"{name}."):
            own_values[key.removeprefix(f"{name}.")] = value

    return own_values
