"""Training steps that are divided until they fit into a GPU's memory."""

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
    'train fewer weights (`lora` or `freeze` of the backbone), take `precision = "bf16"` or an optimiser '
    "that holds less (`adafactor`)"
)


class FittingTrainer(TorchTrainer):
    """A trainer that repeats a step with half the micro-batch if it does not fit into memory.

    By gradient caching, loss and gradient remain those of the whole batch. The size that fits is used for the
    rest of the stage, and saved in its state.
    """

    kept: tuple[str, ...] = ("steps", "fits")
    fits: int | None = None
    """Micro-batch that fits, in rows; None as long as nothing was halved."""

    @property
    def micro_batch(self) -> int | None:
        """The stage's micro-batch, or fewer rows if only they fit."""
        asked = super().micro_batch
        if self.fits is None or asked is None:
            return asked or self.fits

        return min(asked, self.fits)

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward, loss, gradient, update."""
        try:
            return super().step(columns)
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"the optimiser's state does not fit into {self.placement.memory} beside weights and gradients; "
                f"{LESS}"
            ) from error

    def _backward(self, columns: Columns) -> LossOutput:
        start_again = self._beginning()
        while True:
            try:
                return super()._backward(columns)
            except torch.OutOfMemoryError:
                # While the error is handled, it keeps the tensors that did not fit alive.
                pass
            start_again()
            self._halve(columns)

    def _beginning(self) -> Callable[[], None]:
        """Return a function that undoes a forward and backward pass, so that it can be repeated exactly."""
        states = generator_states()
        buffers = list(self.loss.buffers())
        for tower in self.towers.values():
            buffers += tower.buffers.values()

        before = [value.clone() for value in buffers]

        def start_again() -> None:
            for parameter in self.parameters.values():
                parameter.grad = None

            self.batch_vectors = []
            restore_generators(states)
            for value, old in zip(buffers, before, strict=True):
                value.copy_(old)

        return start_again

    def _halve(self, columns: Columns) -> None:
        processes = self.processes.world
        memory = self.placement.memory
        texts = [tokens for tokens in columns.values() if isinstance(tokens, TokenIds)]
        rows = math.ceil(max(map(len, texts)) / processes)
        micro_batch = min(rows, self.micro_batch or rows)
        half = max(1, micro_batch // 2)

        if processes > 1:
            # The other processes are in the middle of the step, waiting for this one.
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
