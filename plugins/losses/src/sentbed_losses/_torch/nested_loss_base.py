"""The base classes of the modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentbed.protocols import PROGRESS, LossOutput, LossTraits
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


class Parts(nn.Module):
    """The weighted sum of several losses.

    `losses` are their modules by name. `weights` and `traits` are in the same order; if `weights` is empty, each
    weight is 1. Each loss gets the inputs that it would get if it were used alone, and its own state if it has
    one.
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
        """Return the weighted sum of the losses of a batch. `state` has the states of all losses."""
        return self.total([inputs] * len(self.names), state)

    def total(
        self, inputs: Sequence[Columns], state: Mapping[str, Tensor] | None
    ) -> LossOutput:
        """Return the weighted sum. `inputs` has the inputs of each loss, `state` the states of all losses."""
        losses = []
        metrics: dict[str, Tensor] = {}
        next_state: dict[str, Tensor] = {}
        parts = zip(
            self.names, self.weights, self.losses, self.traits, inputs, strict=True
        )
        for name, weight, loss, traits, columns in parts:
            arguments = [_inputs_alone(columns, traits)]
            if state is not None and traits.stateful:
                arguments.append(_without_prefix(name, state))

            output: LossOutput = loss(*arguments)

            losses.append(weight * output.loss)
            metrics[name] = output.loss.detach()
            metrics |= _with_prefix(name, output.metrics)
            next_state |= _with_prefix(name, output.state or {})

        total = torch.stack(losses).sum()
        if state is None:
            return LossOutput(total, metrics)

        return LossOutput(total, metrics, next_state)


class StatefulParts(Parts):
    """The weighted sum of several losses of which at least one has a state.

    It is a class of its own, since only modules of stateful losses may have the method `initial_state`.
    """

    def initial_state(self) -> dict[str, Tensor]:
        """Return the initial states of the losses, under the names `LOSS.NAME`."""
        states: dict[str, Tensor] = {}
        parts = zip(self.names, self.losses, self.traits, strict=True)
        for name, loss, traits in parts:
            if traits.stateful:
                module: Any = loss
                states |= _with_prefix(name, module.initial_state())

        return states


def _inputs_alone(inputs: Columns, traits: LossTraits) -> dict[str, Tensor]:
    """Return those of the inputs that a loss would get if it were used alone.

    These are its columns, the ids of texts if it compares texts, and the progress of the stage if it needs it.
    """
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


def _with_prefix(loss: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the metrics or the state of a loss under the names `LOSS.NAME`."""
    return {f"{loss}.{name}": value for name, value in values.items()}


def _without_prefix(loss: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of a loss from the states of all losses, whose names are `LOSS.NAME`."""
    state = {}
    for name, value in values.items():
        if name.startswith(f"{loss}."):
            state[name.removeprefix(f"{loss}.")] = value

    return state
