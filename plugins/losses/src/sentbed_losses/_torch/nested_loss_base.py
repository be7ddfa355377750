"""The base classes of the modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import torch
from sentbed.protocols import PROGRESS, Loss, LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


@attrs.frozen
class Inputs:
    """What a loss gets if it is used alone."""

    columns: frozenset[str] | None
    """Names of its columns; None for all."""
    needs: frozenset[str]
    """What else it needs (`Loss.needs`)."""

    @classmethod
    def of(cls, loss: Loss) -> Inputs:
        """Return what a loss gets."""
        columns = None
        if loss.takes is not None:
            columns = loss.columns | loss.takes
        return cls(columns, loss.needs)

    def of_batch(self, inputs: Columns) -> dict[str, Tensor]:
        """Return those of the inputs of a batch that the loss gets."""
        selected = {}
        for name, value in inputs.items():
            column = name.removesuffix(".id")
            is_taken = self.columns is None or column in self.columns
            if name == PROGRESS:
                is_taken = "progress" in self.needs
            elif name != column:
                is_taken = is_taken and "text-ids" in self.needs

            if is_taken:
                selected[name] = value

        return selected


class Parts(nn.Module):
    """The weighted sum of several losses.

    `modules` are their modules by name. `weights` and `losses` are in the same order; if `weights` is empty, each
    weight is 1. Each loss gets the inputs that it would get if it were used alone, and its own state if it has
    one.
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        weights: Sequence[float],
        losses: Sequence[Loss],
    ) -> None:
        super().__init__()
        self.names = tuple(modules)
        self.weights = tuple(weights) or (1.0,) * len(modules)
        self.inputs = tuple(map(Inputs.of, losses))
        self.losses = nn.ModuleList(modules.values())

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
            self.names, self.weights, self.losses, self.inputs, inputs, strict=True
        )
        for name, weight, module, taken, columns in parts:
            arguments = [taken.of_batch(columns)]
            if state is not None and "state" in taken.needs:
                arguments.append(_without_prefix(name, state))

            output: LossOutput = module(*arguments)

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

    It is a class of its own, since only modules of losses with a state may have the method `initial_state`.
    """

    def initial_state(self) -> dict[str, Tensor]:
        """Return the initial states of the losses, under the names `LOSS.NAME`."""
        states: dict[str, Tensor] = {}
        parts = zip(self.names, self.losses, self.inputs, strict=True)
        for name, part, taken in parts:
            if "state" in taken.needs:
                module: Any = part
                states |= _with_prefix(name, module.initial_state())

        return states


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
