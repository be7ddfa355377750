"""The trainer on PyTorch: its steps, from the columns of a batch to the update of the weights, and its state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed.helpers import derive
from sentbed.protocols import (
    Columns,
    LossOutput,
    StepResult,
    TokenIds,
    Trainer,
    Training,
)
from sentbed_common import host_generator_states, restore_host_generators
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.random_generators import (
    generator_states,
    restore_generators,
)
from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware._torch.parameter_groups import separate
from sentbed_hardware._torch.placed_encoder import TorchEncoder
from sentbed_hardware._torch.placement import Placement, Say
from sentbed_hardware._torch.sharding import (
    Replicas,
    mesh_of,
    replicated,
    share_of,
    whole,
)
from sentbed_hardware._torch.token_vectors import BatchTokenVectors
from sentbed_hardware._torch.tower import (
    BatchVectors,
    Chunk,
    MovingAverage,
    Texts,
    Tower,
    plan_chunks,
)
from sentbed_hardware._torch.training_state import (
    OF_OPTIMIZER,
    RANDOM,
    numbered,
    optimizer_values,
    prefixed,
    read_by_all,
    restore_optimizer,
)
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    learning_rate,
    origin_outside_encoders,
)
from sentbed_hardware.engine_parts.parameter_settings import loss_parameter_settings
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.state_files import (
    read_state,
    require_same_tensors,
    write_state,
)
from sentbed_hardware.engine_parts.training_checks import (
    common_width,
    key_columns,
    require_trainable,
    towers_with_keys,
)


class TorchTrainer(Trainer):
    """Trains the encoders of one stage. `say` shows the user a message."""

    saved_attributes: tuple[str, ...] = ("steps",)
    """Names of the attributes that `save` writes as values for JSON."""

    def __init__(
        self,
        placement: Placement,
        processes: Processes,
        say: Say,
        encoders: Mapping[str, TorchEncoder],
        training: Training,
    ) -> None:
        self.placement = placement
        self.processes = processes
        """The processes that began this stage. If one of them ends, the stage cannot go on. A later run can
        resume it."""
        self.say = say
        self.encoders = encoders
        self.training = training
        width = common_width(encoders)

        self.towers: dict[str, Tower] = {}
        self.parameters: dict[str, nn.Parameter] = {}
        """Name -> trained parameter, of all towers and of the loss."""
        self._add_towers()

        self.key_columns = key_columns(training)
        """Names of the columns whose texts are keys: a moving average of the weights encodes them."""
        self.averages: dict[str, MovingAverage] = {}
        """Name of a tower -> the moving average that encodes its keys."""
        self.ema: dict[str, MovingAverage] = {}
        """Name of a tower -> the moving average with which the stage is evaluated."""
        self._begin_averages()

        self.loss_state: Tensors | None = None
        """State of a stateful loss, which is an input of its next step. None for a loss without state."""
        self.loss = self._built_loss(width)
        self.loss_parameters = self._trained_loss_parameters()
        """Name -> trained parameter of the loss."""
        self.parameters |= self.loss_parameters

        self.mesh = None
        if processes.sharded:
            self.mesh = mesh_of(processes)
        self.optimized = self._for_optimizer()
        """Name in `parameters` -> the parameter as the optimiser gets it; see `_for_optimizer`."""

        component = training.optimizer
        optimizer = component.build(list(self.optimized.items()))
        self.optimizer = optimizer
        settings = loss_parameter_settings(self.loss, training.loss)
        self.rate_factors = separate(
            self.optimizer, self.optimized, settings, component
        )
        """Multiplier of the learning rate for each parameter group of the optimiser."""

        self.steps = 0
        self.batch_vectors: list[BatchVectors] = []
        """Encoded texts of the current step, whose vectors get a gradient from the loss."""
        self.loss_generators: list[Tensor] | None = None
        """States of the random generators with which the loss is computed. They are equal in all processes.
        None if there is a single process, whose loss uses torch's generators as they are."""
        self._tensors_read: Tensors | None = None
        """During `load`, the tensors of the state in the process that has read the file; else None."""
        self.seed = torch.initial_seed()
        self._broadcast_loss()
        self.reseed()

    @property
    def micro_batch(self) -> int | None:
        """Number of rows per process whose activations are in memory at a time; None for the whole batch."""
        return self.training.micro_batch

    def _add_towers(self) -> None:
        """Create the towers."""
        names = list(dict.fromkeys(self.training.towers.values()))
        placement = self.placement
        bf16 = placement.dtype == torch.bfloat16
        for name in names:
            encoder = self.encoders[name]
            module, backbone = encoder.module, encoder.backbone
            tower = Tower(name, module, backbone, placement, self.processes)
            require_trainable(name, len(names) == 1, module, tower.parameters, bf16)
            self.towers[name] = tower
            self.parameters |= tower.parameters

    def _broadcast_loss(self) -> None:
        """Copy the weights of the first process's loss to all processes."""
        tensors = [*self.loss.parameters(), *self.loss.buffers()]
        self.processes.same([value.detach() for value in tensors])

    def _begin_averages(self) -> None:
        """Create the moving averages; they start as copies of the current weights."""
        momentum = self.training.loss.momentum or 0.0
        for name in towers_with_keys(self.training):
            self.averages[name] = self.towers[name].average(momentum)

        if self.training.ema is None:
            return

        for name, tower in self.towers.items():
            self.ema[name] = tower.average(self.training.ema)

    def _for_optimizer(self) -> dict[str, nn.Parameter]:
        """Return the parameters as the optimiser gets them.

        If some are sharded, all are DTensors, since no optimiser accepts both DTensors and ordinary tensors.
        """
        optimized = dict(self.parameters)
        if self.mesh is None:
            return optimized

        for name, value in self.parameters.items():
            if not isinstance(value, DTensor):
                # The DTensor has the same memory as the parameter, so a step of the optimiser changes both.
                optimized[name] = nn.Parameter(replicated(value, self.mesh))

        return optimized

    def _built_loss(self, width: int) -> nn.Module:
        """Return the loss's module for vectors of this width, and set `loss_state` to its initial state."""
        component, device = self.training.loss, self.placement.device
        built: Any = component.build(width)
        module: nn.Module = built
        module.to(device)
        if "state" in component.needs:
            self.loss_state = {}
            for name, value in built.initial_state().items():
                self.loss_state[name] = value.to(device)

        return module

    def _trained_loss_parameters(self) -> dict[str, nn.Parameter]:
        """Return the trained parameters of the loss under the names `loss.NAME`."""
        trained = {}
        for name, parameter in self.loss.named_parameters():
            if parameter.requires_grad:
                trained[f"loss.{name}"] = parameter

        return trained

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step: forward pass, loss, gradient, update of the weights.

        If the loss or the gradient is not finite, neither the weights nor the loss's state change. The result
        then has these numbers and the part that they come from, and the caller stops.
        """
        rate = learning_rate(self.training, self.steps)
        groups = self.optimizer.param_groups
        for group, factor in zip(groups, self.rate_factors, strict=True):
            group["lr"] = rate * factor

        output = self._backward(columns)
        self._sum_gradients()
        norm = self._clip_gradients()
        origin = ""

        if torch.isfinite(norm) and torch.isfinite(output.loss):
            self._update()
            self.loss_state = output.state
            for average in (*self.averages.values(), *self.ema.values()):
                average.update()
        else:
            origin = self._origin_of_fault(columns, output)

        self._finish()
        self.steps += 1
        metrics = {}
        for name, value in output.metrics.items():
            metrics[name] = float(value)

        return StepResult(output.loss.item(), rate, float(norm), metrics, fault=origin)

    @in_all_processes
    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch, and its gradient for each parameter by name, without taking a step."""
        output = self._backward(columns)
        self._sum_gradients()
        gradients = {}
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is None:
                gradient = torch.zeros_like(parameter)
            gradients[name] = whole(gradient).float().cpu().numpy()

        self._finish()
        return output.loss.item(), gradients

    def _finish(self) -> None:
        """Drop the step's gradients and vectors, and the encoders' copies of their weights for encoding."""
        self.optimizer.zero_grad(set_to_none=True)
        for parameter in self.parameters.values():
            parameter.grad = None

        self.batch_vectors = []
        for name in self.towers:
            self.encoders[name].weights_changed()

    def _backward(self, columns: Columns) -> LossOutput:
        """Return the loss of a batch, and add its gradient to the `grad` of each parameter."""
        self.batch_vectors = []
        self.loss.train()
        inputs = self._inputs(columns)

        # Similarities must separate near neighbours, so the loss is computed in fp32, outside autocast.
        with self._same_random_numbers():
            if self.loss_state is None:
                output: LossOutput = self.loss(inputs)
            else:
                output = self.loss(inputs, self.loss_state)

        # The first call gives the vectors their gradient, the others give it to the encoders' parameters.
        output.loss.backward()  # type: ignore[no-untyped-call]
        for vectors in self.batch_vectors:
            vectors.backward()

        return output

    def _inputs(self, columns: Columns) -> dict[str, Any]:
        """Return the loss's input for each column: the vectors of a column of texts, else its values."""
        inputs: dict[str, Any] = {}
        columns_of_texts: dict[str, TokenIds] = {}
        for name, values in columns.items():
            if isinstance(values, TokenIds):
                columns_of_texts[name] = values
            else:
                inputs[name] = torch.tensor(values, device=self.placement.device)

        for tower in self.towers.values():
            tower.module.train()
            texts: dict[str, TokenIds] = {}
            keys: dict[str, TokenIds] = {}
            for name, tokens in columns_of_texts.items():
                if self.training.towers[name] != tower.name:
                    continue
                if name in self.key_columns:
                    keys[name] = tokens
                else:
                    texts[name] = tokens

            if texts:
                inputs |= self._encode(tower, texts)
            if keys:
                inputs |= self._encode_keys(tower, keys)

        # The loss gets its columns in the order of the data, however many towers there are.
        return {name: inputs[name] for name in dict.fromkeys((*columns, *inputs))}

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        """While active, torch's generators give the same random numbers in every process."""
        if self.loss_generators is None:
            yield
            return

        states_of_process = generator_states()
        restore_generators(self.loss_generators)
        yield
        self.loss_generators = generator_states()
        restore_generators(states_of_process)

    def _encode(self, tower: Tower, columns: Texts) -> Mapping[str, Any]:
        """Encode the columns of a tower together, and return the vectors of each. They have a gradient."""
        tokens, chunks, recompute = self._plan_passes(tower, columns)

        if tower.module.output == "tokens":
            token_vectors = BatchTokenVectors(tower, tokens, chunks, recompute)
            self.batch_vectors.append(token_vectors)
            return token_vectors.by_column(columns)

        batch_vectors = BatchVectors(tower, tokens, chunks, recompute)
        self.batch_vectors.append(batch_vectors)
        return _by_column(columns, batch_vectors.vectors)

    def _encode_keys(self, tower: Tower, columns: Texts) -> dict[str, Tensor]:
        """Encode columns of keys by the tower's moving average, and return the vectors of each."""
        tokens, chunks, _ = self._plan_passes(tower, columns)
        vectors = tower.encode_keys(self.averages[tower.name], tokens, chunks)
        return _by_column(columns, vectors)

    def _plan_passes(
        self, tower: Tower, columns: Texts
    ) -> tuple[TokenIds, list[Chunk], bool]:
        """Return all texts of the columns, the texts of each pass, and whether each pass is computed twice.

        If the batch exceeds a micro-batch, passes are computed a second time for the gradient.
        """
        tokens = TokenIds.join(columns.values())
        texts_of_a_row = len(columns)
        rows = self.micro_batch
        if rows is not None:
            rows *= self.processes.world
            if rows * texts_of_a_row >= len(tokens):
                rows = None
        chunks = plan_chunks(tokens.lengths, texts_of_a_row, rows, tower.pass_cost)
        return tokens, list(chunks), rows is not None

    def _sum_gradients(self) -> None:
        """Sum the towers' gradients over the processes, since each process has those of its own rows.

        The loss is computed on all rows in every process, so the gradients of its parameters are complete.
        They are not divided when the towers' gradients are averaged.
        """
        processes = self.processes
        if processes.world == 1:
            return

        tower_parameters: list[nn.Parameter] = []
        for tower in self.towers.values():
            tower_parameters += tower.parameters.values()
            # Buffers may be batch statistics, and each process has those of its own rows.
            processes.same(list(tower.buffers.values()))

        # FSDP sums the gradients of sharded parameters in the backward pass.
        unsharded = []
        for parameter in tower_parameters:
            if not isinstance(parameter, DTensor):
                unsharded.append(parameter)

        # A parameter with a gradient in one process needs one in all, so that all sum the same tensors.
        have_gradient = [parameter.grad is not None for parameter in unsharded]
        counts = torch.tensor(have_gradient, dtype=torch.int32)
        counts = counts.to(self.placement.device)
        processes.sum([counts])
        for parameter, count in zip(unsharded, counts.tolist(), strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

        processes.sum(_gradients_of(unsharded))
        if processes.local_gradient:
            for gradient in _gradients_of(tower_parameters):
                gradient.div_(processes.world)

        processes.same(_gradients_of(self.loss_parameters.values()))

    def _origin_of_fault(self, columns: Columns, output: LossOutput) -> str:
        """Return which part gave the first NaN or infinity of a step; "" if unknown."""
        if self.processes.world > 1:
            return ""

        for batch in self.batch_vectors:
            not_finite = torch.nonzero(~torch.isfinite(batch.vectors).all(1))
            if len(not_finite):
                # Repeating the pass must not change the dropout of later steps.
                before = generator_states()
                texts = batch.texts_of(not_finite[0].cpu().numpy())
                origin = batch.tower.origin_of_nan(batch.tokens, texts)
                restore_generators(before)
                return came_from(origin or f"the encoder `{batch.tower.name}`")

        return origin_outside_encoders(columns, self.training.loss, output.loss.item())

    def _clip_gradients(self) -> Tensor:
        """Clip the gradients to the stage's `max_grad_norm`, and return their norm before clipping."""
        if self.mesh is not None:
            for name, parameter in self.parameters.items():
                optimized = self.optimized[name]
                if optimized is not parameter and parameter.grad is not None:
                    optimized.grad = replicated(parameter.grad, self.mesh)

        limit = self.training.max_grad_norm or math.inf
        norm = nn.utils.clip_grad_norm_(self.optimized.values(), limit)
        return whole(norm)

    def _update(self) -> None:
        """Let the optimiser change the weights."""
        if self.mesh is None:
            self.optimizer.step()
            return

        with Replicas(self.mesh):
            self.optimizer.step()

    @in_all_processes
    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving averages for evaluation."""
        for name, average in self.ema.items():
            average.swap()
            self.encoders[name].weights_changed()

    def reseed(self) -> None:
        """Seed torch's generators anew if there are several processes.

        The seed of a process depends on its rank, the seed for the loss does not. Both depend on the number of
        steps taken.
        """
        processes = self.processes
        if processes.world == 1:
            return

        torch.manual_seed(derive(self.seed, "loss", self.steps))
        self.loss_generators = generator_states()
        torch.manual_seed(derive(self.seed, "process", processes.rank, self.steps))

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into `directory`, which is empty.

        Raises:
            RunError: if the optimiser's state cannot be written to a file.
        """
        generators_by_rank = self.processes.results(generator_states)
        values, tensors = self.processes.together(type(self)._values_and_tensors, self)
        for rank, states in enumerate(generators_by_rank):
            tensors |= prefixed(_generator_prefix(rank), enumerate(states))

        tensors |= prefixed(f"{RANDOM}.loss", enumerate(self.loss_generators or []))
        plain = {name: value.detach().contiguous() for name, value in tensors.items()}
        write_state(directory, values, plain, safetensors.torch.save_file)

    def load(self, directory: Path) -> None:
        """Restore the state that `save` wrote. If it does not fit this trainer, nothing changes.

        Raises:
            ModelError: if a file cannot be read, has tensors of other names or shapes, or is of another number of
                processes.
        """
        values, tensors = read_state(directory, safetensors.torch.load_file)
        world = self.processes.world
        if values["processes"] != world:
            raise ModelError(
                f"the state in `{directory}` is of {values['processes']} processes, and this run has {world}; "
                "resume it with as many"
            )
        require_same_tensors(
            _without_optimizer(tensors), self._tensors_to_save(), directory
        )
        # The other processes get the names, shapes and dtypes; `read_by_all` then sends them the values.
        without_values = {name: value.to("meta") for name, value in tensors.items()}
        self._tensors_read = tensors
        try:
            self.processes.together(type(self)._restore, self, values, without_values)
        finally:
            self._tensors_read = None

    def _values_and_tensors(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return what determines later steps, as values for JSON and as tensors.

        The states of torch's generators are left out. Sharded tensors are whole only in the first process.
        """
        tensors = self._tensors_to_save()
        values = optimizer_values(self.optimizer, self.optimized, tensors)

        for name, value in tensors.items():
            full = whole(value)
            if full is not value and self.processes.first:
                tensors[name] = full.cpu()

        for name in self.saved_attributes:
            values[name] = getattr(self, name)
        values["random"] = host_generator_states()
        values["processes"] = self.processes.world
        return values, tensors

    def _restore(self, values: Mapping[str, Any], without_values: Tensors) -> None:
        """Restore a state in this process; all processes call this.

        `without_values` are the state's tensors on the device `meta`. Only the first process has their values.
        """
        tensors = self._tensors_read or without_values
        read = partial(read_by_all, self.processes, tensors)
        with torch.no_grad():
            for name, value in self._tensors_changed_in_place().items():
                value.copy_(share_of(read(name), value))

        if self.loss_state is not None:
            loss_state = {}
            for name in self.loss_state:
                saved = read(f"state.{name}")
                loss_state[name] = saved.clone().to(self.placement.device)
            self.loss_state = loss_state

        restore_optimizer(self.optimizer, self.optimized, values, read)
        for name in self.saved_attributes:
            setattr(self, name, values.get(name, getattr(self, name)))
        for name in self.towers:
            self.encoders[name].weights_changed()

        # The generators come last, since the code above may draw random numbers.
        restore_host_generators(values["random"])
        generators = {}
        for name in without_values:
            if name.startswith(f"{RANDOM}."):
                generators[name] = read(name).cpu()

        restore_generators(numbered(generators, _generator_prefix(self.processes.rank)))
        self.loss_generators = numbered(generators, f"{RANDOM}.loss") or None

    def _tensors_to_save(self) -> dict[str, Tensor]:
        """Return the tensors of a state, except those of the optimiser and of random generators, as
        `SECTION.NAME`."""
        loss_state = self.loss_state or {}
        return self._tensors_changed_in_place() | prefixed("state", loss_state.items())

    def _tensors_changed_in_place(self) -> dict[str, Tensor]:
        """Return the tensors under the names `SECTION.NAME` that a step changes in place.

        A step also replaces the tensors of the loss's state, and changes those of the optimiser.
        """
        changed: dict[str, Tensor] = {}
        changed |= prefixed("weights", self.parameters.items())
        changed |= prefixed("buffers.loss", self.loss.named_buffers())
        for tower in self.towers.values():
            changed |= prefixed("buffers", tower.buffers.items())

        for average in self.averages.values():
            changed |= prefixed("average", average.tensors.items())

        for average in self.ema.values():
            changed |= prefixed("ema", average.tensors.items())

        return {name: value.detach() for name, value in changed.items()}


def _gradients_of(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of the parameters, leaving out parameters without a gradient."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None:
            gradients.append(parameter.grad)

    return gradients


def _without_optimizer(tensors: Tensors) -> Tensors:
    """Return the tensors of a state, except those of the optimiser and of random generators."""
    return {
        name: value
        for name, value in tensors.items()
        if not name.startswith((*OF_OPTIMIZER, f"{RANDOM}."))
    }


def _generator_prefix(rank: int) -> str:
    """Return the prefix of the names under which the generator states of a process are saved."""
    if rank == 0:
        return RANDOM

    return f"{RANDOM}.process-{rank}"


def _by_column(columns: Texts, vectors: Tensor) -> dict[str, Tensor]:
    """Split the vectors of all texts into those of each column."""
    counts = [len(tokens) for tokens in columns.values()]
    return dict(zip(columns, torch.split(vectors, counts), strict=True))
