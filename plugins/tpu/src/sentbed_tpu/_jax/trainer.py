"""Training steps on JAX.

A step consists of few functions, each compiled once per shape: a batch of texts forward, the loss of all
vectors, a batch backward, the update. So each shape is compiled once, whatever the number of texts or
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import attrs
import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sentbed import ModelError, RunError
from sentbed.helpers import pad, plan_batches, returned
from sentbed.protocols import (
    Columns,
    Module,
    Optimizer,
    StepResult,
    TokenBatch,
    TokenIds,
    Trainer,
    Training,
)
from sentbed_common import host_generator_states, restore_host_generators
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    connected,
    frozen_nan,
    learning_rate,
    missing_gradient,
    named_loss,
    named_parts,
)
from sentbed_hardware.engine_parts.parameter_settings import (
    loss_parameter_settings,
    rate_factor,
    require_decay,
)
from sentbed_hardware.engine_parts.prompt_ensembles import (
    combine_prompts,
    texts_per_row,
)
from sentbed_hardware.engine_parts.state_files import (
    REMEDY,
    read_state,
    require_same_tensors,
    write_state,
)
from sentbed_hardware.engine_parts.training_checks import (
    key_columns,
    require_trainable,
    towers_with_keys,
)

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.optax_optimizers import build_optax
from sentbed_tpu._jax.pure_functions import Arrays, Batch, FunctionalLoss, host_arrays

EMA = "ema "
"""Prefix of a tower's name for its moving average for evaluation; the average that encodes keys has none."""
OF_THE_LOSS = 1 << 20
"""Number of the loss's random key; batches of texts are numbered from 0."""
CLIPPING_EPSILON = 1e-6
"""Added to the norm before the division, as `torch.nn.utils.clip_grad_norm_` does."""

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Shapes of parameters, by name."""
Cut: TypeAlias = tuple[str, str, int]
"""A column's part of the encoded vectors: the name of the vectors, the column, its number of rows."""


class JaxTower:
    """An encoder in training, as compiled functions."""

    def __init__(self, name: str, encoder: JaxEncoder, alone: bool) -> None:
        self.name = name
        self.encoder = encoder
        parameters = encoder.function.trained()
        devices = encoder.devices
        require_trainable(name, alone, encoder.module, parameters, devices.bf16)
        self.names = frozenset(parameters)
        """Names of the trained weights."""

        jit = devices.compiled.jit
        rows = devices.layout.rows
        self.forward = jit(self._forward, counted=True, out_shardings=rows)
        self.keys = jit(self._keys, counted=True, out_shardings=rows)
        self.forward_and_back = jit(self._forward_and_back, counted=True)

        weights = devices.layout.weights(self.trained)
        self.copies = jit(_copies, out_shardings=weights)
        self.zeros = jit(_zeros, out_shardings=weights)
        self.backward = jit(self._backward, donate_argnums=(0,), out_shardings=weights)
        self.forward_again = jit(
            self._forward_again, donate_argnums=(0,), out_shardings=weights
        )

    @property
    def trained(self) -> Arrays:
        """The trained weights."""
        weights = self.encoder.weights
        return {name: weights[name] for name in weights if name in self.names}

    @property
    def fixed(self) -> Arrays:
        """All other weights, and the buffers."""
        weights = self.encoder.weights
        return {name: weights[name] for name in weights if name not in self.names}

    def _forward(
        self, trained: Arrays, fixed: Arrays, batch: Batch, key: jax.Array
    ) -> jax.Array:
        """Return the vectors of a batch in training mode."""
        return self.encoder.function(fixed | trained, batch, key, "train")

    def _keys(
        self, trained: Arrays, fixed: Arrays, batch: Batch, key: jax.Array
    ) -> jax.Array:
        """Return the vectors of a batch of keys."""
        return self.encoder.function(fixed | trained, batch, key, "key")

    def _forward_and_back(
        self, trained: Arrays, fixed: Arrays, batch: Batch, key: jax.Array
    ) -> Any:
        """Return the vectors of a batch, and the function from their gradient to that of the weights."""
        return jax.vjp(lambda new: self._forward(new, fixed, batch, key), trained)

    def _backward(
        self, gradient: Arrays, back: Callable[..., Any], slope: jax.Array
    ) -> Arrays:
        """Return the sum of `gradient` and the weights' gradient, given that of a batch's vectors."""
        (of_batch,) = back(slope)
        total: Arrays = jax.tree.map(jnp.add, gradient, of_batch)
        return total

    def _forward_again(
        self, gradient: Arrays, slope: jax.Array, *arguments: Any
    ) -> Arrays:
        """Repeat a forward pass whose activations were not kept, then its backward pass."""
        _, back = self._forward_and_back(*arguments)
        return self._backward(gradient, back, slope)


@attrs.frozen(eq=False)
class _Pass:
    """A batch of texts of a tower, ready for the backward pass."""

    tower: JaxTower
    vectors: str
    """Name of the vectors that it belongs to."""
    places: jax.Array
    """Indices of its rows among those vectors."""
    batch: Batch
    key: jax.Array
    back: Callable[..., Any] | None
    """Function from the gradient of its rows to that of the weights; None if activations are not kept."""


@attrs.define(eq=False)
class _EncodedColumns:
    """The vectors of a step's texts, with their backward passes."""

    key: jax.Array
    """Random key of the step."""
    vectors: Arrays = attrs.field(factory=dict)
    """All vectors of a tower's texts, and of its keys."""
    cuts: tuple[Cut, ...] = ()
    passes: list[_Pass] = attrs.field(factory=list)
    batches: int = 0
    """Number of batches so far, those of keys included."""

    def next_key(self) -> jax.Array:
        """Return the random key of the next batch."""
        key = jax.random.fold_in(self.key, self.batches)
        self.batches += 1
        return key


class _StepState(NamedTuple):
    """The arrays that a step changes."""

    weights: Arrays
    """Trained weights of towers and loss, by the names of `Trainer.gradients`."""
    optimizer: Any
    averages: dict[str, Arrays]
    """Moving averages by the name of their tower, those for evaluation after `EMA`."""
    state: Arrays | None
    """State of the loss, if it has one."""


class JaxTrainer(Trainer):
    """One stage's optimiser over the encoders that it trains; see `TorchTrainer`.

    The towers' weights are those of the encoders; the trainer has the loss's, the optimiser's state, the
    moving averages and the loss's state.
    """

    def __init__(
        self,
        devices: JaxDevices,
        key: jax.Array,
        encoders: Mapping[str, JaxEncoder],
        training: Training,
        loss: Module,
    ) -> None:
        self.devices = devices
        self.training = training
        self.encoders = encoders
        self.processes = devices.processes
        names = list(dict.fromkeys(training.towers.values()))
        self.towers: dict[str, JaxTower] = {}
        for name in names:
            self.towers[name] = JaxTower(name, encoders[name], len(names) == 1)

        self.keys = key_columns(training)
        self.loss = FunctionalLoss(loss, training.loss)
        self.loss_weights: Arrays = {}
        """Trained weights of the loss."""
        self.loss_fixed: Arrays = {}
        """All other weights of the loss, and its buffers."""
        self.state: Arrays | None = None
        self._place_loss(loss)

        self.averages: dict[str, Arrays] = {}
        self.decays: dict[str, float] = {}
        self._begin_averages()

        self.steps = 0
        self.key = jax.random.fold_in(key, 1)
        self.settings = loss_parameter_settings(loss, training.loss, "loss.")
        require_decay(self.settings, training.optimizer)
        self.rate_factors = {}
        """What the learning rate of a step is multiplied by, for parameters that have one of their own."""
        for name, special in self.settings.items():
            self.rate_factors[name] = rate_factor(special, training.optimizer)

        weights = self.weights()
        shapes = {name: tuple(value.shape) for name, value in weights.items()}
        self.transform = self._transform(shapes)
        layout, jit = devices.layout, devices.compiled.jit
        state_shapes = jax.eval_shape(self.transform.init, weights)
        spread = jax.tree.map(lambda value: layout.weight(value.shape), state_shapes)
        self.optimizer = jit(self.transform.init, out_shardings=spread)(weights)

        self._contrast = jit(
            self._loss_and_slopes, static_argnums=(6, 7), out_shardings=layout.whole
        )
        self._scatter = jit(_scatter, donate_argnums=(0,), out_shardings=layout.whole)
        self._gather = jit(_gather, out_shardings=layout.rows)
        self._update = jit(self._updated, donate_argnums=(0,))

    def _place_loss(self, loss: Any) -> None:
        """Put the loss's weights and buffers, and its first state, on the devices."""
        trained, fixed = {}, dict(loss.named_buffers())
        for name, parameter in loss.named_parameters():
            if parameter.requires_grad:
                trained[name] = parameter
            else:
                fixed[name] = parameter

        layout = self.devices.layout
        self.loss_weights = layout.put(host_arrays(trained))
        self.loss_fixed = layout.put(host_arrays(fixed))
        if self.training.loss.traits.stateful:
            self.state = {}
            for name, value in host_arrays(loss.initial_state()).items():
                self.state[name] = layout.place(_narrow(value), layout.whole)

    def _begin_averages(self) -> None:
        """Begin the moving averages that encode keys, and those for evaluation."""
        momentum = self.training.loss.traits.momentum or 0.0
        for name in towers_with_keys(self.training):
            tower = self.towers[name]
            self.averages[name] = tower.copies(tower.trained)
            self.decays[name] = momentum

        if self.training.ema is None:
            return

        for name, tower in self.towers.items():
            self.averages[EMA + name] = tower.copies(tower.trained)
            self.decays[EMA + name] = self.training.ema

    def _transform(self, shapes: Shapes) -> Any:
        """Return the optimiser's updates, with the decay of parameters that have one of their own."""
        optimizer = self.training.optimizer
        transforms: dict[str, Any] = {"": _optax(optimizer, shapes)}
        labels = dict.fromkeys(shapes, "")
        for name, special in self.settings.items():
            decay = special.weight_decay
            if decay is None:
                continue

            labels[name] = name
            if _is_decayed(optimizer, name, shapes):
                # The optimiser may scale its decay, as Adafactor does.
                transforms[name] = _optax(_with_decay(optimizer, decay), shapes)
            else:
                undecayed = _optax(_with_decay(optimizer, 0.0), shapes)
                decayed = optax.add_decayed_weights(decay)
                transforms[name] = optax.chain(undecayed, decayed)

        if len(transforms) == 1:
            return transforms[""]

        return optax.multi_transform(transforms, labels)

    def weights(self) -> Arrays:
        """Return all trained weights, by the names of `Trainer.gradients`."""
        of_towers = {name: tower.trained for name, tower in self.towers.items()}
        return _by_name(of_towers, self.loss_weights)

    def _step_state(self) -> _StepState:
        return _StepState(self.weights(), self.optimizer, self.averages, self.state)

    def _take(self, new: _StepState) -> None:
        """Go on from new values of everything that a step changes."""
        for name, tower in self.towers.items():
            for key in tower.names:
                tower.encoder.weights[key] = new.weights[f"{name}.{key}"]

        for name in self.loss_weights:
            self.loss_weights[name] = new.weights[f"loss.{name}"]

        self.optimizer = new.optimizer
        self.averages = new.averages
        self.state = new.state

    # --- one step ------------------------------------------------------------------------------------------

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step; nothing changes if loss or gradient is not finite."""
        rate = learning_rate(self.training, self.steps)
        loss_array, metrics, after, gradients = self.backward(columns)
        if self.steps == 0:
            self._require_gradients(gradients, columns)

        norm = float(self.update(gradients, after, loss_array, rate))
        loss = float(loss_array)
        origin = ""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            origin = self._origin_of_fault(columns, loss)

        self.steps += 1
        numbers = {name: float(value) for name, value in metrics.items()}
        numbers["compiled_shapes"] = float(self.devices.compiled.shapes)
        return StepResult(loss, rate, norm, numbers, fault=origin)

    def _require_gradients(self, gradients: Arrays, columns: Columns) -> None:
        """Raise `PluginError` for a trained part of an encoder that no gradient reaches."""
        if self.processes.world > 1:
            return

        is_nonzero = self.devices.compiled.jit(_are_nonzero)(gradients)
        for name, tower in self.towers.items():
            module = tower.encoder.module
            reached = {}
            for key in tower.names:
                reached[key] = bool(is_nonzero[f"{name}.{key}"])
            if missing_gradient(name, module, reached) is None:
                continue

            # A gradient of zero may be right: PyTorch's graph shows whether another is possible.
            batch = self._first_texts(tower, columns)
            error = missing_gradient(
                name, module, connected(module, tower.names, batch)
            )
            if error is not None:
                raise error

    def _first_texts(self, tower: JaxTower, columns: Columns) -> TokenBatch:
        """Return the first texts of a tower, at most two."""
        texts = self._texts_of(tower, columns)
        tokens = next(iter(texts.values()))
        rows = np.arange(min(2, len(tokens)))
        return pad(tokens, rows, tower.encoder.pad_id)

    def _texts_of(self, tower: JaxTower, columns: Columns) -> dict[str, TokenIds]:
        """Return the columns of texts that a tower encodes, keys included."""
        texts = {}
        for name, values in columns.items():
            if not isinstance(values, TokenIds):
                continue
            if self.training.towers[name] == tower.name:
                texts[name] = values

        return texts

    def _origin_of_fault(self, columns: Columns, loss: float) -> str:
        """Return what gave the first number that is not finite in a step; "" if that cannot be told."""
        if self.processes.world > 1:
            return ""

        budget = self.devices.buckets.token_budget
        for tower in self.towers.values():
            encoder = tower.encoder
            for tokens in self._texts_of(tower, columns).values():
                for rows in plan_batches(tokens.lengths, budget):
                    origin = encoder.origin_of_nan(pad(tokens, rows, encoder.pad_id))
                    if origin:
                        return came_from(origin)

        if frozen_nan(columns):
            return came_from("a frozen encoder")

        named = named_loss(self.training.loss)
        if not math.isfinite(loss):
            return came_from(f"{named}: the vectors that it got have none")

        first_tower = next(iter(self.towers.values()))
        parts = named_parts(first_tower.encoder.module)
        return came_from(f"the gradient of {named}, {parts}")

    def update(
        self, gradients: Arrays, after: Arrays | None, loss: jax.Array, rate: float
    ) -> jax.Array:
        """Update weights, averages and states, and return the norm of the gradient."""
        before = self._step_state()
        new, norm = self._update(before, gradients, after, loss, np.float32(rate))
        self._take(new)
        grad_norm: jax.Array = norm
        return grad_norm

    @in_all_processes
    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving average."""
        for name, tower in self.towers.items():
            trained = tower.trained
            tower.encoder.weights |= self.averages[EMA + name]
            self.averages[EMA + name] = trained

    @in_all_processes
    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return loss and gradient of a batch by the name of each parameter; take no step."""
        loss, _, _, gradients = self.backward(columns)
        return float(loss), self.devices.layout.fetch_all(gradients)

    def backward(
        self, columns: Columns
    ) -> tuple[jax.Array, Arrays, Arrays | None, Arrays]:
        """Return loss, metrics, the loss's next state, and the gradient by the name of each parameter."""
        layout = self.devices.layout
        self.key, key = jax.random.split(self.key)
        encoded = self._encode_columns(columns, key)
        other_inputs = {}
        for name, values in columns.items():
            if not isinstance(values, TokenIds):
                array = _narrow(np.asarray(values))
                other_inputs[name] = layout.place(array, layout.whole)

        (loss, (metrics, after)), (slopes, of_loss) = self._contrast(
            encoded.vectors,
            self.loss_weights,
            self.loss_fixed,
            other_inputs,
            self.state,
            layout.key(jax.random.fold_in(key, OF_THE_LOSS)),
            encoded.cuts,
            tuple(columns),
        )

        of_towers = {}
        for name, tower in self.towers.items():
            of_towers[name] = tower.zeros(tower.trained)
        while encoded.passes:
            # Taken out of the list, so that its activations are freed.
            self._add_gradient(encoded.passes.pop(), slopes, of_towers)

        return loss, metrics, after, _by_name(of_towers, of_loss)

    def _add_gradient(
        self, last: _Pass, slopes: Arrays, gradients: dict[str, Arrays]
    ) -> None:
        """Add a pass's gradient to that of its tower; `slopes` are the gradients of all vectors."""
        tower = last.tower
        gradient = gradients[tower.name]
        slope = self._gather(slopes[last.vectors], last.places)
        if last.back is not None:
            gradients[tower.name] = tower.backward(gradient, last.back, slope)
            return

        gradients[tower.name] = tower.forward_again(
            gradient, slope, tower.trained, tower.fixed, last.batch, last.key
        )

    def _encode_columns(self, columns: Columns, key: jax.Array) -> _EncodedColumns:
        """Encode all columns of texts; those of a tower together, its keys apart."""
        encoded = _EncodedColumns(key)
        for tower in self.towers.values():
            texts: dict[str, TokenIds] = {}
            keys: dict[str, TokenIds] = {}
            for name, tokens in self._texts_of(tower, columns).items():
                if name in self.keys:
                    keys[name] = tokens
                else:
                    texts[name] = tokens

            if texts:
                self._encode(tower, texts, False, encoded)
            if keys:
                self._encode(tower, keys, True, encoded)

        return encoded

    def _encode(
        self,
        tower: JaxTower,
        columns: Mapping[str, TokenIds],
        is_key: bool,
        encoded: _EncodedColumns,
    ) -> None:
        """Encode a tower's columns, and add vectors `(texts, width)` and passes to `encoded`."""
        layout, encoder = self.devices.layout, tower.encoder
        tokens = TokenIds.join(columns.values())
        texts = self._texts_a_pass(tower, len(columns), len(tokens))
        place = f"{tower.name} texts"
        trained = tower.trained
        if is_key:
            place = f"{tower.name} keys"
            trained = self.averages[tower.name]

        shape = len(tokens), encoder.trained_width
        vectors = layout.place(np.zeros(shape, np.float32), layout.whole)
        plan = self.devices.buckets.plan(tokens.lengths, encoder.longest, texts)
        for chosen, rows, length in plan:
            padded = pad(tokens, chosen, encoder.pad_id)
            batch = encoder.place(padded.widened(rows, length, encoder.pad_id))
            key = layout.key(encoded.next_key())
            arguments = trained, tower.fixed, batch, key
            back = None
            if is_key:
                of_batch = tower.keys(*arguments)
            elif texts is None:
                of_batch, back = tower.forward_and_back(*arguments)
            else:
                of_batch = tower.forward(*arguments)

            # The rows of padding are written after the last text, out of range, and so dropped.
            places = np.full(rows, len(tokens), np.int32)
            places[: len(chosen)] = chosen
            into = layout.place(places, layout.rows)
            vectors = self._scatter(vectors, of_batch, into)
            if not is_key:
                encoded.passes.append(_Pass(tower, place, into, batch, key, back))

        encoded.vectors[place] = vectors
        for name, values in columns.items():
            encoded.cuts += ((place, name, len(values)),)

    def _texts_a_pass(self, tower: JaxTower, columns: int, texts: int) -> int | None:
        """Return the texts of a pass under the stage's micro-batch; None if all activations are kept."""
        if self.training.micro_batch is None:
            return None

        rows = self.training.micro_batch * self.devices.layout.mesh.size
        texts_a_pass = rows * columns * texts_per_row(self.training, tower.name)
        if texts_a_pass >= texts:
            return None

        return texts_a_pass

    def _loss_and_slopes(
        self,
        vectors: Arrays,
        loss_weights: Arrays,
        fixed: Arrays,
        other_inputs: Arrays,
        state: Arrays | None,
        key: jax.Array,
        cuts: tuple[Cut, ...],
        order: tuple[str, ...],
    ) -> Any:
        """Return loss, metrics, next state, and the gradients of all vectors and of the loss's weights."""

        def loss(vectors: Arrays, loss_weights: Arrays) -> Any:
            inputs = dict(other_inputs)
            starts = dict.fromkeys(vectors, 0)
            for place, column, rows in cuts:
                start = starts[place]
                part = vectors[place][start : start + rows]
                tower = self.training.towers[column]
                inputs[column] = combine_prompts(self.training, tower, part)
                starts[place] = start + rows

            ordered = {name: inputs[name] for name in order}
            return self.loss(loss_weights, fixed, ordered, state, key)

        with_gradient = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
        return with_gradient(vectors, loss_weights)

    def _updated(
        self,
        before: _StepState,
        gradients: Arrays,
        after: Arrays | None,
        loss: jax.Array,
        rate: jax.Array,
    ) -> tuple[_StepState, jax.Array]:
        """Return the new values of everything that a step changes, and the norm of the gradient.

        `after` is the loss's next state. Nothing changes if loss or gradient is not finite.
        """
        norm = optax.tree.norm(gradients)
        limit = self.training.max_grad_norm
        scale: Any = 1.0
        if limit:
            scale = jnp.minimum(1.0, limit / (norm + CLIPPING_EPSILON))

        clipped = jax.tree.map(lambda gradient: gradient * scale, gradients)
        updates, optimizer = self.transform.update(
            clipped, before.optimizer, before.weights
        )
        weights = {}
        for name, value in before.weights.items():
            factor = self.rate_factors.get(name, 1.0)
            weights[name] = value - rate * factor * updates[name]

        averages: dict[str, Arrays] = {}
        for name, average in before.averages.items():
            tower = name.removeprefix(EMA)
            decay = self.decays[name]
            averages[name] = {}
            for key, old in average.items():
                new = weights[f"{tower}.{key}"]
                averages[name][key] = decay * old + (1 - decay) * new

        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        result = jax.tree.map(
            lambda new, old: jnp.where(is_finite, new, old),
            _StepState(weights, optimizer, averages, after),
            before,
        )
        return jax.lax.with_sharding_constraint(result, self._layouts(result)), norm

    def _layouts(self, values: _StepState) -> _StepState:
        """Return the sharding of each array that a step changes."""
        layout = self.devices.layout
        spread = jax.tree.map(lambda value: layout.weight(value.shape), values)
        whole = jax.tree.map(lambda _: layout.whole, values.state)
        return _StepState(spread.weights, spread.optimizer, spread.averages, whole)

    # --- state ---------------------------------------------------------------------------------------------

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`."""
        values = {
            "steps": self.steps,
            "optimizer": self.training.optimizer.name,
            "random": host_generator_states(),
        }
        write_state(directory, values, self.arrays(), save_file)

    def load(self, directory: Path) -> None:
        """Restore what `save` wrote. Raises `ModelError` if it does not fit this trainer."""
        values, arrays = read_state(directory, load_file)
        written_by, optimizer = values["optimizer"], self.training.optimizer.name
        if written_by != optimizer:
            raise ModelError(
                f"`{directory}` holds the state of the optimizer `{written_by}`, the recipe has "
                f"`{optimizer}`; {REMEDY}"
            )
        require_same_tensors(arrays, self.state_by_name(), directory)
        self.restore(values, arrays)

    def state_arrays(self) -> dict[str, Any]:
        """Return every array that determines later steps, as a tree."""
        arrays = self._step_state()._asdict()
        arrays["state"] = self.state or {}
        arrays["key"] = jax.random.key_data(self.key)
        return arrays

    def state_by_name(self) -> dict[str, jax.Array]:
        """Return the arrays of `state_arrays`, each by its path in the tree."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.state_arrays())
        by_name = {}
        for path, value in leaves:
            by_name[jax.tree_util.keystr(path, simple=True, separator="/")] = value

        return by_name

    @in_all_processes
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `state_by_name` on the host; called by all processes."""
        return self.devices.layout.fetch_all(self.state_by_name())

    @in_all_processes
    def restore(
        self, values: Mapping[str, Any], saved: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the values and arrays of a state; called by all processes."""
        layout = self.devices.layout
        placed = []
        for name, value in self.state_by_name().items():
            placed.append(layout.place(saved[name], value.sharding))

        structure = jax.tree.structure(self.state_arrays())
        arrays = jax.tree.unflatten(structure, placed)
        self.key = jax.random.wrap_key_data(arrays.pop("key"))
        if self.state is None:
            arrays["state"] = None
        self._take(_StepState(**arrays))
        self.steps = values["steps"]
        restore_host_generators(values["random"])


def _copies(arrays: Arrays) -> Any:
    return jax.tree.map(jnp.copy, arrays)


def _zeros(arrays: Arrays) -> Any:
    return jax.tree.map(jnp.zeros_like, arrays)


def _are_nonzero(arrays: Arrays) -> Any:
    return jax.tree.map(lambda array: jnp.any(array != 0), arrays)


def _by_name(of_towers: Mapping[str, Arrays], of_loss: Arrays) -> Arrays:
    """Return arrays of towers and of the loss under `TOWER.NAME` and `loss.NAME`."""
    by_name = {}
    for tower, arrays in [*of_towers.items(), ("loss", of_loss)]:
        for name, array in arrays.items():
            by_name[f"{tower}.{name}"] = array

    return by_name


def _optax(optimizer: Optimizer, shapes: Shapes) -> optax.GradientTransformation:
    """Return an optimiser's updates. Raises `RunError` for one that has none in optax."""
    built = optimizer.build_optax(shapes)
    if built is None:
        built = build_optax(optimizer, shapes)
    if built is None:
        raise RunError(
            f"the optimizer `{optimizer.name}` has no twin for JAX (`build_optax`), which the runtime `tpu` "
            "needs; use `adamw` or `adafactor`, or another runtime"
        )
    return returned(built, optax.GradientTransformation, optimizer, "build_optax")


def _with_decay(optimizer: Optimizer, decay: float) -> Optimizer:
    evolved: Optimizer = attrs.evolve(cast(Any, optimizer), weight_decay=decay)
    return evolved


def _is_decayed(optimizer: Optimizer, name: str, shapes: Shapes) -> bool:
    """Whether an optimiser with a `weight_decay` decays the parameter `name` at all; AdamW spares vectors.

    It is tried on a weight of ones whose gradient is zero, which then moves by its decay only.
    """
    transform = _optax(_with_decay(optimizer, 1.0), {name: shapes[name]})
    weights = {name: jnp.ones(shapes[name])}
    gradients = {name: jnp.zeros(shapes[name])}
    updates, _ = transform.update(gradients, transform.init(weights), weights)
    return bool(jnp.any(updates[name] != 0))


def _scatter(into: jax.Array, vectors: jax.Array, places: jax.Array) -> jax.Array:
    """Write vectors into rows; those out of range are dropped."""
    return into.at[places].set(vectors, mode="drop")


def _gather(slopes: jax.Array, places: jax.Array) -> jax.Array:
    """Return rows; those out of range are zero."""
    return slopes.at[places].get(mode="fill", fill_value=0.0)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers as JAX's 32-bit ones; text ids keep 31 bits."""
    if values.dtype != np.int64:
        return values

    return (values & 0x7FFFFFFF).astype(np.int32)
