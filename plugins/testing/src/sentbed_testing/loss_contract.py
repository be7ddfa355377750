"""The contract of a loss: its module is called with random vectors."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from sentbed.protocols import LABEL, LOSS_NEEDS, PROGRESS, Loss, LossOutput
from torch import Tensor
from torch.nn import Module
from torch.testing import assert_close

from sentbed_testing.module_contract import ModuleContract, seeded_module

ROWS = 5
"""Number of rows of a batch."""

Inputs = dict[str, Tensor]
"""Column -> vectors, classes or numbers of the rows, as a loss gets them."""


class LossContract(ModuleContract):
    """Tests of a loss. A loss that stops a gradient on purpose skips `test_gradient`, and says why."""

    component: ClassVar[Loss]

    def test_needs_are_words_that_engines_know(self, component: Loss) -> None:
        """What it `needs` are words of `LOSS_NEEDS`; its columns are in `columns`."""
        assert component.needs <= LOSS_NEEDS.keys()

    def inputs(
        self,
        component: Loss,
        rows: int = ROWS,
        seed: int = 0,
        takes: bool = True,
    ) -> Inputs:
        """Return random inputs: vectors, classes, or numbers in [0, 1).

        They have all columns that the loss needs; with `takes`, also the columns that it may use.
        """
        columns = set(component.columns)
        if takes:
            columns |= component.takes or component.numbers

        generator = torch.Generator().manual_seed(seed)
        inputs: Inputs = {}
        if "progress" in component.needs:
            inputs[PROGRESS] = torch.tensor(0.25)

        for number, name in enumerate(sorted(columns)):
            if name == LABEL:
                inputs[name] = torch.arange(rows) % len(component.classes)
            elif name in component.numbers:
                inputs[name] = torch.rand(rows, generator=generator)
            else:
                vectors = torch.randn(rows, self.width, generator=generator)
                inputs[name] = vectors.requires_grad_()
                if "text-ids" in component.needs:
                    first = rows * (number + len(columns) * seed)
                    inputs[f"{name}.id"] = torch.arange(first, first + rows)

        return inputs

    def arguments(self, component: Any) -> tuple[Any, ...]:
        """Return random inputs and, for a loss that has a state, its state after two steps."""
        inputs = self.inputs(component)
        if "state" not in component.needs:
            return (inputs,)

        module: Any = seeded_module(component, self.width)
        state = module.initial_state()
        for seed in (1, 2):
            state = module(self.inputs(component, seed=seed), state).state

        return inputs, state

    def results(self, output: Any) -> list[Any]:
        """Return the loss, the metrics and the next state."""
        return [output.loss, dict(output.metrics), dict(output.state or {})]

    def differentiable(self, output: Any) -> Tensor:
        """Return the loss."""
        loss: Tensor = output.loss
        return loss

    @pytest.fixture
    def module(self, component: Loss) -> Module:
        """The module, which is only called in training."""
        return seeded_module(component, self.width).train()

    def first_step(
        self,
        component: Loss,
        module: Any,
        inputs: Inputs,
    ) -> LossOutput:
        """Return the output of the first step."""
        state = []
        if "state" in component.needs:
            state.append(module.initial_state())

        output = module(inputs, *state)

        assert isinstance(output, LossOutput)

        return output

    @pytest.mark.parametrize("takes", [True, False])
    @pytest.mark.parametrize("rows", [ROWS, 2, 1])
    def test_output(
        self,
        component: Loss,
        module: Module,
        rows: int,
        takes: bool,
    ) -> None:
        """It returns a finite float32 scalar and detached scalar metrics, whatever the size of the batch."""
        inputs = self.inputs(component, rows, takes=takes)
        output = self.first_step(component, module, inputs)

        assert output.loss.shape == ()
        assert output.loss.dtype == torch.float32
        assert torch.isfinite(output.loss)

        for name, metric in output.metrics.items():
            assert isinstance(metric, Tensor), name
            assert metric.shape == (), name
            assert not metric.requires_grad, name

    def test_state(
        self,
        component: Loss,
        module: Any,
    ) -> None:
        """A loss that needs a `state` returns detached tensors with the names and shapes of `initial_state()`."""
        state = self.first_step(component, module, self.inputs(component)).state
        if "state" not in component.needs:
            assert state is None
            return

        first = module.initial_state()

        assert state is not None
        assert state.keys() == first.keys()

        for name, value in first.items():
            assert state[name].shape == value.shape, name
            assert state[name].dtype == value.dtype, name
            assert not state[name].requires_grad, name

    def test_rows_in_another_order(
        self,
        component: Loss,
        module: Module,
    ) -> None:
        """The loss does not depend on the order of the rows."""
        inputs = self.inputs(component)
        reordered = {}
        for name, value in inputs.items():
            reordered[name] = value
            if value.ndim:
                reordered[name] = value[[3, 0, 4, 2, 1]]

        loss = self.first_step(component, module, inputs).loss

        assert_close(self.first_step(component, module, reordered).loss, loss)
