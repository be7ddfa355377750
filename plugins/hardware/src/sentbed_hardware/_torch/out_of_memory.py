"""A trainer that repeats a step with a smaller micro-batch if the GPU runs out of memory."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from sentbed import RunError
from sentbed.protocols import Columns, LossOutput, StepResult, TokenIds

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._torch.trainer import TorchTrainer
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes

LESS = (
    'train fewer weights (`lora` or `freeze` of the backbone), set `precision = "bf16"`, or use an optimiser '
    "with a smaller state (`adafactor`)"
)
"""Advice against running out of memory, for messages."""


class FittingTrainer(TorchTrainer):
    """A trainer that repeats a step with half the micro-batch if the step does not fit into memory.

    The micro-batch is the number of rows whose activations are in memory at a time. Since gradient caching is
    used, the loss and the gradient remain those of the whole batch. The micro-batch that fits is used for the
    rest of the stage, and is part of the saved state.
    """

    saved_attributes: tuple[str, ...] = ("steps", "fits")
    fits: int | None = None
    """Micro-batch in rows, halved until a step fitted into memory; None as long as every step has fitted."""

    @property
    def micro_batch(self) -> int | None:
        """The micro-batch of the recipe or `fits`, whichever has fewer rows."""
        of_recipe = super().micro_batch
        if self.fits is None:
            return of_recipe
        if of_recipe is None:
            return self.fits

        return min(of_recipe, self.fits)

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step.

        Raises:
            RunError: if a single row does not fit into memory, or memory ends outside the forward and backward
                passes, where a smaller micro-batch would not help.
        """
        try:
            return super().step(columns)
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"a step does not fit into {self.placement.memory} outside its forward and backward passes "
                f"(weights, gradients, the optimiser's state, moving averages); {LESS}"
            ) from error

    def _backward(self, columns: Columns) -> LossOutput:
        undo = self._prepare_undo()
        while True:
            try:
                return super()._backward(columns)
            except torch.OutOfMemoryError:
                # The error holds references to large tensors. They are freed only after this block.
                pass
            undo()
            self._halve_micro_batch(columns)

    def _prepare_undo(self) -> Callable[[], None]:
        """Return a function that undoes `_backward`, so that it can be repeated exactly.

        The function restores gradients, buffers and random generators.
        """
        states = generator_states()
        buffers = list(self.loss.buffers())
        for tower in self.towers.values():
            buffers += tower.buffers.values()

        before = [value.clone() for value in buffers]

        def undo() -> None:
            for parameter in self.parameters.values():
                parameter.grad = None

            self.batch_vectors = []
            restore_generators(states)
            for value, old in zip(buffers, before, strict=True):
                value.copy_(old)

        return undo

    def _halve_micro_batch(self, columns: Columns) -> None:
        """Use half the micro-batch from now on.

        Raises:
            RunError: if it is a single row already, or if there are several processes.
        """
        processes = self.processes.world
        memory = self.placement.memory
        rows = 0
        for tokens in columns.values():
            if isinstance(tokens, TokenIds):
                rows = max(rows, len(tokens))

        rows = math.ceil(rows / processes)
        micro_batch = min(rows, self.micro_batch or rows)
        half = max(1, micro_batch // 2)

        if processes > 1:
            # The step cannot be repeated: other processes wait for this one in the middle of it.
            raise RunError(
                f"a step of {micro_batch} rows at a time does not fit into {memory} of one of the processes; "
                f"set `micro_batch = {half}` in the stage"
            )

        if micro_batch == 1:
            raise RunError(
                f"the activations of a single row do not fit into {memory} beside weights and gradients; "
                f"set a smaller `max_length`, or {LESS}"
            )

        torch.cuda.empty_cache()
        self.fits = half
        self.say(
            f"a step of {micro_batch} rows at a time did not fit into {memory}; going on with "
            f"`micro_batch = {half}`, which gives the gradient of the whole batch"
        )
