"""The base class of the modules of losses that contain losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sentbed.protocols import PROGRESS, Loss, LossOutput
from torch import Tensor, nn

from sentbed_losses._torch.batch_columns import Columns


class Parts(nn.Module):
    """The weighted sum of several losses.

    `losses` has the settings of the losses by name. `modules` and `weights` are in the same order; if `weights`
    is empty, each weight is 1. Each loss gets the inputs that it would get if it were used alone, and its own
    state if it needs one. In the state of all losses, the names are `LOSS.NAME`.
    """

    def __init__(
        self,
        losses: Mapping[str, Loss],
        modules: Sequence[Any],
        weights: Sequence[float] = (),
    ) -> None:
        super().__init__()
        self.parts = dict(losses)
        self.weights = tuple(weights) or (1.0,) * len(modules)
        self.losses = nn.ModuleList(modules)

    def initial_state(self) -> dict[str, Tensor]:
        """Return the initial states of the losses that need one."""
        states: dict[str, Tensor] = {}
        for (name, loss), part in zip(self.parts.items(), self.losses, strict=True):
            if "state" in loss.needs:
                module: Any = part
                states |= _with_prefix(name, module.initial_state())

        return states

    def forward(
        self, inputs: Columns, state: Mapping[str, Tensor] | None = None
    ) -> LossOutput:
        """Return the weighted sum of the losses of a batch. `state` has the states of all losses."""
        return self.total([inputs] * len(self.parts), state)

    def total(
        self, inputs: Sequence[Columns], state: Mapping[str, Tensor] | None
    ) -> LossOutput:
        """Return the weighted sum. `inputs` has the inputs of each loss, `state` the states of all losses."""
        terms = []
        metrics: dict[str, Tensor] = {}
        next_state: dict[str, Tensor] = {}
        parts = zip(self.parts.items(), self.weights, self.losses, inputs, strict=True)
        for (name, loss), weight, module, columns in parts:
            arguments = [_inputs_of(loss, columns)]
            if state is not None and "state" in loss.needs:
                arguments.append(_without_prefix(name, state))

            output: LossOutput = module(*arguments)

            terms.append(weight * output.loss)
            metrics[name] = output.loss.detach()
            metrics |= _with_prefix(name, output.metrics)
            next_state |= _with_prefix(name, output.state or {})

        total = torch.stack(terms).sum()
        if state is None:
            return LossOutput(total, metrics)

        return LossOutput(total, metrics, next_state)


def _inputs_of(loss: Loss, inputs: Columns) -> dict[str, Tensor]:
    """Return those of the inputs of a batch that a loss gets if it is used alone."""
    selected = {}
    for name, value in inputs.items():
        column = name.removesuffix(".id")
        is_taken = loss.takes is None or column in loss.columns or column in loss.takes
        if name == PROGRESS:
            is_taken = "progress" in loss.needs
        elif name != column:
            is_taken = is_taken and "text-ids" in loss.needs
        if is_taken:
            selected[name] = value

    return selected


def _with_prefix(loss: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the metrics or the state of a loss under the names `LOSS.NAME`."""
    return {f"{loss}.{name}": value for name, value in values.items()}


def _without_prefix(loss: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of a loss from the states of all losses."""
    state = {}
    for name, value in values.items():
        if name.startswith(f"{loss}."):
            state[name.removeprefix(f"{loss}.")] = value

    return state
