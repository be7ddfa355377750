"""The trainer on JAX: its steps, and its state.

A step consists of four kinds of compiled functions: the forward pass of a batch of texts, the loss of all
vectors, the backward pass of a batch, and the update of the weights. Each function is compiled once for each
shape of its arguments, however many texts or columns there are.
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
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sentbed import ModelError, RunError
from sentbed.helpers import full_name, pad, plan_batches
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
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    connected,
    frozen_nan,
    learning_rate,
)
from sentbed_hardware.engine_parts.parameter_settings import (
    loss_parameter_settings,
    rate_factor,
    require_decay,
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
from sentbed_tpu._jax.mesh import Layout
from sentbed_tpu._jax.optax_optimizers import build_optax
from sentbed_tpu._jax.pure_functions import Arrays, Batch, FunctionalLoss, host_arrays

EMA = "ema "
"""Prefix of a tower's name in `JaxTrainer.averages`, for the moving average with which a stage is evaluated. The
average that encodes keys has the name of its tower without a prefix."""
LOSS_KEY_NUMBER = 1 << 20
"""Number of the random key of the loss in a step. The keys of batches are numbered from 0."""
CLIPPING_EPSILON = 1e-6
"""Added to the norm of the gradient before dividing by it, as `torch.nn.utils.clip_grad_norm_` does."""

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
"""Name of a parameter -> its shape."""


class JaxTower:
    """An encoder in training, as functions that are compiled by JAX."""

    def __init__(
        self,
        name: str,
        encoder: JaxEncoder,
        alone: bool,
    ) -> None:
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
        """The weights that are not trained, and the buffers."""
        weights = self.encoder.weights
        return {name: weights[name] for name in weights if name not in self.names}

    def _forward(
        self,
        trained: Arrays,
        fixed: Arrays,
        batch: Batch,
        key: jax.Array,
    ) -> jax.Array:
        """Return the vectors of a batch in training mode."""
        return self.encoder.function(fixed | trained, batch, key, "train")

    def _keys(
        self,
        trained: Arrays,
        fixed: Arrays,
        batch: Batch,
        key: jax.Array,
    ) -> jax.Array:
        """Return the vectors of a batch of keys: the backbone is in eval mode, pooler and head are not."""
        return self.encoder.function(fixed | trained, batch, key, "key")

    def _forward_and_back(
        self,
        trained: Arrays,
        fixed: Arrays,
        batch: Batch,
        key: jax.Array,
    ) -> Any:
        """Return the vectors of a batch, and a function from their gradient to that of the weights.

        The function holds the activations of the batch.
        """
        return jax.vjp(lambda new: self._forward(new, fixed, batch, key), trained)

    def _backward(
        self,
        total: Arrays,
        back: Callable[..., Any],
        vector_gradient: jax.Array,
    ) -> Arrays:
        """Return `total` plus the gradient of the weights for a batch.

        `back` is from `_forward_and_back`, `vector_gradient` is the gradient of the batch's vectors.
        """
        (weight_gradient,) = back(vector_gradient)
        new_total: Arrays = jax.tree.map(jnp.add, total, weight_gradient)
        return new_total

    def _forward_again(
        self,
        total: Arrays,
        vector_gradient: jax.Array,
        *arguments: Any,
    ) -> Arrays:
        """Repeat a forward pass whose activations were not kept, and return the result of its `_backward`."""
        _, back = self._forward_and_back(*arguments)
        return self._backward(total, back, vector_gradient)


class _ColumnPart(NamedTuple):
    """The part of the vectors of a tower that belongs to a column.

    The parts of a tower's columns follow each other.
    """

    vectors: str
    """Name of the vectors; see `_EncodedColumns.vectors`."""
    column: str
    size: int
    """Number of vectors of the column."""


@attrs.frozen(eq=False)
class _Pass:
    """A batch of texts whose vectors have been computed, and whose backward pass is still to come."""

    tower: JaxTower
    vectors: str
    """Name of the vectors to which those of the batch belong; see `_EncodedColumns.vectors`."""
    places: jax.Array
    """For each row of the batch, the index of its vector among the vectors with this name."""
    batch: Batch
    key: jax.Array
    """Random key of the batch's dropout."""
    back: Callable[..., Any] | None
    """The function of `JaxTower.forward_and_back`; None if activations are not kept."""


@attrs.define(eq=False)
class _EncodedColumns:
    """The vectors of a step's columns of texts, and the passes that computed them."""

    key: jax.Array
    """Random key of the step."""
    vectors: Arrays = attrs.field(factory=dict)
    """`TOWER texts` -> all vectors of a tower's texts, and `TOWER keys` -> all vectors of its keys."""
    parts: tuple[_ColumnPart, ...] = ()
    passes: list[_Pass] = attrs.field(factory=list)
    """The passes with a gradient, so without those of keys."""
    batches: int = 0
    """Number of batches so far, including batches of keys."""

    def next_key(self) -> jax.Array:
        """Return the random key of the next batch."""
        key = jax.random.fold_in(self.key, self.batches)
        self.batches += 1
        return key


class _StepState(NamedTuple):
    """The arrays that a step changes. The names of the fields are part of the names in saved states."""

    weights: Arrays
    """Trained weights of towers and loss, under the names of `Trainer.gradients`."""
    optimizer: Any
    """State of the optimiser, a tree of arrays of optax."""
    averages: dict[str, Arrays]
    """See `JaxTrainer.averages`."""
    state: Arrays | None
    """State of the loss; None if it has no state."""


class JaxTrainer(Trainer):
    """Trains the encoders of one stage on JAX; see `TorchTrainer` for the trainer on PyTorch.

    The encoders hold their own weights. The trainer holds the weights and the state of the loss, the state of
    the optimiser, and the moving averages.
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
        names = list(dict.fromkeys(training.towers.values()))
        self.towers: dict[str, JaxTower] = {}
        for name in names:
            self.towers[name] = JaxTower(name, encoders[name], len(names) == 1)

        self.key_columns = key_columns(training)
        """Names of the columns whose texts are keys: a moving average of the weights encodes them."""
        self.loss = FunctionalLoss(loss)
        self.loss_weights: Arrays = {}
        """Trained weights of the loss."""
        self.loss_fixed: Arrays = {}
        """Weights of the loss that are not trained, and its buffers."""
        self.loss_state: Arrays | None = None
        """State of a stateful loss, which is an input of its next step. None for a loss without state."""
        self._place_loss(loss)

        self.averages: dict[str, Arrays] = {}
        """`TOWER` -> the moving average that encodes keys, `ema TOWER` -> the one for evaluation."""
        self.decays: dict[str, float] = {}
        """Name in `averages` -> decay of the moving average."""
        self._begin_averages()

        self.unreached: frozenset[str] | None = None
        """Names of the weights on which no vector depends, which an update leaves as they are; None before the
        first step."""
        self.steps = 0
        self.key = jax.random.fold_in(key, 1)
        self.settings = loss_parameter_settings(loss, training.loss)
        require_decay(self.settings, training.optimizer)
        self.rate_factors = {}
        """Name of a parameter of the loss with settings of its own -> multiplier of its learning rate. It is 1
        for all other parameters."""
        for name, special in self.settings.items():
            self.rate_factors[name] = rate_factor(special, training.optimizer)

        weights = self.weights()
        shapes = {name: tuple(value.shape) for name, value in weights.items()}
        self.transform = self._transform(shapes)
        layout, jit = devices.layout, devices.compiled.jit
        state_shapes = jax.eval_shape(self.transform.init, weights)
        shardings = jax.tree.map(lambda value: layout.weight(value.shape), state_shapes)
        self.optimizer = jit(self.transform.init, out_shardings=shardings)(weights)

        self._compute_loss = jit(
            self._loss_and_gradients, static_argnums=(6, 7), out_shardings=layout.whole
        )
        self._scatter = jit(_scatter, donate_argnums=(0,), out_shardings=layout.whole)
        self._gather = jit(_gather, out_shardings=layout.rows)
        self._compute_update = jit(self._updated, donate_argnums=(0,))

    def _place_loss(self, loss: Any) -> None:
        """Put the loss's weights and buffers, and its initial state, on the devices."""
        trained, fixed = {}, dict(loss.named_buffers())
        for name, parameter in loss.named_parameters():
            if parameter.requires_grad:
                trained[name] = parameter
            else:
                fixed[name] = parameter

        layout = self.devices.layout
        self.loss_weights = layout.put(host_arrays(trained))
        self.loss_fixed = layout.put(host_arrays(fixed))
        if "state" in self.training.loss.needs:
            self.loss_state = {}
            for name, value in host_arrays(loss.initial_state()).items():
                self.loss_state[name] = _place_wide(layout, value, layout.whole)

    def _begin_averages(self) -> None:
        """Create the moving averages; they start as copies of the current weights."""
        momentum = self.training.loss.momentum or 0.0
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
        """Return the optimiser as a gradient transformation of optax.

        Parameters of the loss whose settings have a weight decay get a transformation with this decay.
        """
        optimizer = self.training.optimizer
        transforms: dict[str, Any] = {"": _optax(optimizer, shapes)}
        labels = dict.fromkeys(shapes, "")
        for name, special in self.settings.items():
            decay = special.weight_decay
            if decay is None:
                continue

            labels[name] = name
            if _is_decayed(optimizer, name, shapes):
                # The optimiser applies the decay, since it may scale it, as Adafactor does.
                transforms[name] = _optax(_with_decay(optimizer, decay), shapes)
            else:
                undecayed = _optax(_with_decay(optimizer, 0.0), shapes)
                decayed = optax.add_decayed_weights(decay)
                transforms[name] = optax.chain(undecayed, decayed)

        if len(transforms) == 1:
            return transforms[""]

        return optax.multi_transform(transforms, labels)

    def weights(self) -> Arrays:
        """Return all trained weights, under the names of `Trainer.gradients`."""
        tower_weights = {name: tower.trained for name, tower in self.towers.items()}
        return _by_name(tower_weights, self.loss_weights)

    def _step_state(self) -> _StepState:
        """Return the current values of the arrays that a step changes."""
        return _StepState(
            self.weights(), self.optimizer, self.averages, self.loss_state
        )

    def _set_step_state(self, new: _StepState) -> None:
        """Replace the arrays that a step changes."""
        for name, tower in self.towers.items():
            for key in tower.names:
                tower.encoder.weights[key] = new.weights[f"{name}.{key}"]

        for name in self.loss_weights:
            self.loss_weights[name] = new.weights[f"loss.{name}"]

        self.optimizer = new.optimizer
        self.averages = new.averages
        self.loss_state = new.state

    def step(self, columns: Columns) -> StepResult:
        """Take a training step. If the loss or the gradient is not finite, no weight and no state changes."""
        rate = learning_rate(self.training, self.steps)
        loss_array, metrics, next_state, gradients = self.backward(columns)
        if self.unreached is None:
            self.unreached = self._unreached_weights(gradients, columns)

        norm = float(self.update(gradients, next_state, loss_array, rate))
        loss = float(loss_array)
        origin = ""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            origin = self._origin_of_fault(columns, loss)

        self.steps += 1
        numbers = {name: float(value) for name, value in metrics.items()}
        numbers["compiled_shapes"] = float(self.devices.compiled.shapes)
        return StepResult(loss, rate, norm, numbers, fault=origin)

    def _unreached_weights(self, gradients: Arrays, columns: Columns) -> frozenset[str]:
        """Return the names of the encoders' trained weights on which no vector depends.

        JAX gives zeros for them, but a gradient may also be zero. PyTorch tells the two apart.

        Raises:
            PluginError: if no gradient reaches a trained part of an encoder.
        """
        are_nonzero = self.devices.compiled.jit(_are_nonzero)(gradients)
        is_nonzero = self.devices.layout.fetch_all(are_nonzero)
        unreached = []
        for name, tower in self.towers.items():
            zeros = {key for key in tower.names if not is_nonzero[f"{name}.{key}"]}
            if not zeros:
                continue

            module, batch = tower.encoder.module, self._first_texts(tower, columns)
            with torch.random.fork_rng(devices=[]):
                zeros -= connected(module, zeros, batch)

            unreached += [f"{name}.{key}" for key in zeros]

        return frozenset(unreached)

    def _first_texts(self, tower: JaxTower, columns: Columns) -> TokenBatch:
        """Return the first one or two texts of a tower as a batch."""
        texts = self._texts_of(tower, columns)
        tokens = next(iter(texts.values()))
        rows = np.arange(min(2, len(tokens)))
        return pad(tokens, rows, tower.encoder.pad_id)

    def _texts_of(self, tower: JaxTower, columns: Columns) -> dict[str, TokenIds]:
        """Return the columns of texts that a tower encodes, including keys."""
        texts = {}
        for name, values in columns.items():
            if not isinstance(values, TokenIds):
                continue
            if self.training.towers[name] == tower.name:
                texts[name] = values

        return texts

    def _origin_of_fault(self, columns: Columns, loss: float) -> str:
        """Return which part gave the first NaN or infinity of a step; "" if unknown."""
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

        if not math.isfinite(loss):
            loss_name = full_name(self.training.loss)
            return came_from(f"{loss_name}: the vectors that it got have none")
        return came_from("a gradient")

    def update(
        self,
        gradients: Arrays,
        next_state: Arrays | None,
        loss: jax.Array,
        rate: float,
    ) -> jax.Array:
        """Update weights, averages, the optimiser's and the loss's state; return the norm of the gradient."""
        before = self._step_state()
        new, norm = self._compute_update(
            before, gradients, next_state, loss, np.float32(rate)
        )
        self._set_step_state(new)
        grad_norm: jax.Array = norm
        return grad_norm

    def swap_average(self) -> None:
        """Exchange the encoders' trained weights with their moving averages for evaluation."""
        for name, tower in self.towers.items():
            trained = tower.trained
            tower.encoder.weights |= self.averages[EMA + name]
            self.averages[EMA + name] = trained

    def gradients(
        self, columns: Columns
    ) -> tuple[float, dict[str, NDArray[np.float32]]]:
        """Return the loss of a batch, and its gradient for each parameter by name, without taking a step."""
        loss, _, _, gradients = self.backward(columns)
        return float(loss), self.devices.layout.fetch_all(gradients)

    def backward(
        self, columns: Columns
    ) -> tuple[jax.Array, Arrays, Arrays | None, Arrays]:
        """Return loss and metrics of a batch, the loss's next state, and the gradient of each parameter."""
        layout = self.devices.layout
        self.key, key = jax.random.split(self.key)
        encoded = self._encode_columns(columns, key)
        other_inputs = {}
        for name, values in columns.items():
            if not isinstance(values, TokenIds):
                other_inputs[name] = _place_wide(layout, values, layout.whole)

        outputs, (vector_gradients, loss_gradients) = self._compute_loss(
            encoded.vectors,
            self.loss_weights,
            self.loss_fixed,
            other_inputs,
            self.loss_state,
            layout.key(jax.random.fold_in(key, LOSS_KEY_NUMBER)),
            encoded.parts,
            tuple(columns),
        )
        loss, (metrics, next_state) = outputs

        totals = {}
        for name, tower in self.towers.items():
            totals[name] = tower.zeros(tower.trained)
        while encoded.passes:
            # A pass is taken out of the list, so that its activations are freed after its turn.
            self._add_gradient(encoded.passes.pop(), vector_gradients, totals)

        return loss, metrics, next_state, _by_name(totals, loss_gradients)

    def _add_gradient(
        self,
        forward_pass: _Pass,
        vector_gradients: Arrays,
        totals: dict[str, Arrays],
    ) -> None:
        """Add the gradient of a pass to the total of its tower.

        `vector_gradients` has the gradients of all vectors.
        """
        tower = forward_pass.tower
        total = totals[tower.name]
        gradients = vector_gradients[forward_pass.vectors]
        gradient = self._gather(gradients, forward_pass.places)
        if forward_pass.back is not None:
            totals[tower.name] = tower.backward(total, forward_pass.back, gradient)
            return

        totals[tower.name] = tower.forward_again(
            total,
            gradient,
            tower.trained,
            tower.fixed,
            forward_pass.batch,
            forward_pass.key,
        )

    def _encode_columns(self, columns: Columns, key: jax.Array) -> _EncodedColumns:
        """Encode all columns of texts. The texts of a tower are encoded together, and so are its keys."""
        encoded = _EncodedColumns(key)
        for tower in self.towers.values():
            texts: dict[str, TokenIds] = {}
            keys: dict[str, TokenIds] = {}
            for name, tokens in self._texts_of(tower, columns).items():
                if name in self.key_columns:
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
        """Encode columns of a tower, and add their vectors `(texts, width)` and passes to `encoded`."""
        layout, encoder = self.devices.layout, tower.encoder
        tokens = TokenIds.join(columns.values())
        texts = self._texts_per_pass(len(columns), len(tokens))
        vectors_name = f"{tower.name} texts"
        trained = tower.trained
        if is_key:
            vectors_name = f"{tower.name} keys"
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
                batch_vectors = tower.keys(*arguments)
            elif texts is None:
                batch_vectors, back = tower.forward_and_back(*arguments)
            else:
                batch_vectors = tower.forward(*arguments)

            # Rows of padding get an index after the last text. `_scatter` drops indices out of range.
            indices = np.full(rows, len(tokens), np.int32)
            indices[: len(chosen)] = chosen
            places = layout.place(indices, layout.rows)
            vectors = self._scatter(vectors, batch_vectors, places)
            if not is_key:
                encoded.passes.append(
                    _Pass(tower, vectors_name, places, batch, key, back)
                )

        encoded.vectors[vectors_name] = vectors
        for name, values in columns.items():
            encoded.parts += (_ColumnPart(vectors_name, name, len(values)),)

    def _texts_per_pass(
        self,
        columns: int,
        texts: int,
    ) -> int | None:
        """Return the number of texts per pass for the stage's micro-batch.

        Returns None if the activations of all `texts` of the batch are kept: without a micro-batch, or if all
        texts are within it.
        """
        if self.training.micro_batch is None:
            return None

        rows = self.training.micro_batch * self.devices.layout.mesh.size
        texts_of_pass = rows * columns
        if texts_of_pass >= texts:
            return None

        return texts_of_pass

    def _loss_and_gradients(
        self,
        vectors: Arrays,
        loss_weights: Arrays,
        fixed: Arrays,
        other_inputs: Arrays,
        state: Arrays | None,
        key: jax.Array,
        parts: tuple[_ColumnPart, ...],
        order: tuple[str, ...],
    ) -> Any:
        """Return `(loss, (metrics, next state))`, and the gradients of all vectors and of the loss's weights.

        `parts` says which vectors belong to which column, `order` is the order of the loss's columns.
        """

        def loss(vectors: Arrays, loss_weights: Arrays) -> Any:
            inputs = dict(other_inputs)
            starts = dict.fromkeys(vectors, 0)
            for name, column, size in parts:
                start = starts[name]
                starts[name] += size
                inputs[column] = vectors[name][start : start + size]

            ordered = {name: inputs[name] for name in order}
            return self.loss(loss_weights, fixed, ordered, state, key)

        with_gradient = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
        return with_gradient(vectors, loss_weights)

    def _updated(
        self,
        before: _StepState,
        gradients: Arrays,
        next_state: Arrays | None,
        loss: jax.Array,
        rate: jax.Array,
    ) -> tuple[_StepState, jax.Array]:
        """Return the new values of the arrays that a step changes, and the norm of the gradient.

        `next_state` is the loss's next state. If the loss or the gradient is not finite, all values stay as
        they were before.
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

        # As in torch, a weight without a gradient does not decay.
        for name in self.unreached or ():
            weights[name] = before.weights[name]

        averages: dict[str, Arrays] = {}
        for name, average in before.averages.items():
            tower = name.removeprefix(EMA)
            decay = self.decays[name]
            averages[name] = {}
            for key, old in average.items():
                new = weights[f"{tower}.{key}"]
                averages[name][key] = decay * old + (1 - decay) * new

        is_finite = jnp.isfinite(norm) & jnp.isfinite(loss)
        # The loss's state keeps its integers of 64 bits; see `_place_wide`.
        with jax.enable_x64(True):
            result = jax.tree.map(
                lambda new, old: jnp.where(is_finite, new, old),
                _StepState(weights, optimizer, averages, next_state),
                before,
            )
        shardings = self._shardings(result)
        return jax.lax.with_sharding_constraint(result, shardings), norm

    def _shardings(self, values: _StepState) -> _StepState:
        """Return the sharding of each array that a step changes. The loss's state is never sharded."""
        layout = self.devices.layout
        sharded = jax.tree.map(lambda value: layout.weight(value.shape), values)
        whole = jax.tree.map(lambda _: layout.whole, values.state)
        return _StepState(sharded.weights, sharded.optimizer, sharded.averages, whole)

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into `directory`, which is empty."""
        values = {
            "steps": self.steps,
            "optimizer": self.training.optimizer.name,
            "random": host_generator_states(),
        }
        write_state(directory, values, self.arrays(), save_file)

    def load(self, directory: Path) -> None:
        """Restore the state that `save` wrote.

        Raises:
            ModelError: if a file cannot be read, or the state does not fit this trainer.
        """
        values, arrays = read_state(directory, load_file)
        written_by, optimizer = values["optimizer"], self.training.optimizer.name
        if written_by != optimizer:
            raise ModelError(
                f"`{directory}` holds the state of the optimizer `{written_by}`, the recipe has "
                f"`{optimizer}`; {REMEDY}"
            )
        require_same_tensors(arrays, self.state_by_name(), directory)
        self.restore(values, arrays)

    def state_tree(self) -> dict[str, Any]:
        """Return the arrays that determine later steps, as a tree."""
        tree = self._step_state()._asdict()
        tree["state"] = self.loss_state or {}
        tree["key"] = jax.random.key_data(self.key)
        return tree

    def state_by_name(self) -> dict[str, jax.Array]:
        """Return the arrays of `state_tree`, each under its path in the tree."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(self.state_tree())
        by_name = {}
        for path, value in leaves:
            by_name[jax.tree_util.keystr(path, simple=True, separator="/")] = value

        return by_name

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `state_by_name` on the host."""
        return self.devices.layout.fetch_all(self.state_by_name())

    def restore(
        self, values: Mapping[str, Any], saved: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the values and arrays of a saved state."""
        layout = self.devices.layout
        placed = []
        for name, value in self.state_by_name().items():
            placed.append(_place_wide(layout, saved[name], value.sharding))

        structure = jax.tree.structure(self.state_tree())
        tree = jax.tree.unflatten(structure, placed)
        self.key = jax.random.wrap_key_data(tree.pop("key"))
        if self.loss_state is None:
            tree["state"] = None
        self._set_step_state(_StepState(**tree))
        self.steps = values["steps"]
        restore_host_generators(values["random"])


def _copies(arrays: Arrays) -> Any:
    """Return a copy of each array."""
    return jax.tree.map(jnp.copy, arrays)


def _zeros(arrays: Arrays) -> Any:
    """Return zeros in the shape of each array."""
    return jax.tree.map(jnp.zeros_like, arrays)


def _are_nonzero(arrays: Arrays) -> Any:
    """Return, for each array, whether a number in it is not zero."""
    return jax.tree.map(lambda array: jnp.any(array != 0), arrays)


def _by_name(tower_arrays: Mapping[str, Arrays], loss_arrays: Arrays) -> Arrays:
    """Return the arrays of all towers and of the loss, under the names `TOWER.NAME` and `loss.NAME`."""
    by_name = {}
    for tower, arrays in [*tower_arrays.items(), ("loss", loss_arrays)]:
        for name, array in arrays.items():
            by_name[f"{tower}.{name}"] = array

    return by_name


def _optax(optimizer: Optimizer, shapes: Shapes) -> optax.GradientTransformation:
    """Return an optimiser as a gradient transformation of optax.

    Raises:
        RunError: if the optimiser has no form in optax.
    """
    built = optimizer.build_optax(shapes)
    if built is None:
        built = build_optax(optimizer, shapes)
    if built is None:
        raise RunError(
            f"the optimizer `{optimizer.name}` has no form for JAX (`build_optax`), which the runtime `tpu` "
            "needs; use `adamw` or `adafactor`, or another runtime"
        )
    return built


def _with_decay(optimizer: Optimizer, decay: float) -> Optimizer:
    """Return a copy of an optimiser's component with another weight decay."""
    evolved: Optimizer = attrs.evolve(cast(Any, optimizer), weight_decay=decay)
    return evolved


def _is_decayed(
    optimizer: Optimizer,
    name: str,
    shapes: Shapes,
) -> bool:
    """Return whether an optimiser applies its `weight_decay` to the parameter `name`; AdamW skips vectors.

    This is found out by an update of weights that are all 1, with a gradient of zero: only a decay changes them.
    """
    transform = _optax(_with_decay(optimizer, 1.0), {name: shapes[name]})
    weights = {name: jnp.ones(shapes[name])}
    gradients = {name: jnp.zeros(shapes[name])}
    updates, _ = transform.update(gradients, transform.init(weights), weights)
    return bool(jnp.any(updates[name] != 0))


def _scatter(
    into: jax.Array,
    vectors: jax.Array,
    places: jax.Array,
) -> jax.Array:
    """Return `into` with vectors written into the rows `places`. Places out of range are dropped."""
    return into.at[places].set(vectors, mode="drop")


def _gather(gradients: jax.Array, places: jax.Array) -> jax.Array:
    """Return the rows `places` of gradients, with zeros for places out of range."""
    return gradients.at[places].get(mode="fill", fill_value=0.0)


def _place_wide(
    layout: Layout,
    value: Any,
    sharding: Any,
) -> jax.Array:
    """Return an array on the devices that keeps integers of 64 bits, such as the ids of texts.

    JAX computes with them as they are, and only makes no new ones.
    """
    with jax.enable_x64(True):
        return layout.place(value, sharding)
