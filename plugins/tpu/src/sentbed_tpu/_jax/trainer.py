"""Training steps on JAX.

A step consists of few functions, each compiled once per shape: a batch of texts forward, the loss of all
vectors, a batch backward, the update. So each shape is compiled once, whatever the number of texts or
columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

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
from sentbed_common import host_draws, rewind_host
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    came_from,
    connected,
    cut,
    frozen_nan,
    learning_rate,
    named_loss,
    named_parts,
)
from sentbed_hardware.engine_parts.state_files import (
    REMEDY,
    read_state,
    require_same_tensors,
    write_state,
)
from sentbed_hardware.engine_parts.training_settings import (
    joined,
    keyed_towers,
    keys_of,
    rate_factor,
    require_decay,
    require_trainable,
    settings_of,
    texts_a_row,
)

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.encoder import JaxEncoder
from sentbed_tpu._jax.optax_optimizers import build_optax
from sentbed_tpu._jax.pure_functions import Arrays, Batch, FunctionalLoss, host_arrays

EMA = "ema "
"""Before a tower's name: its average for evaluation, beside the one that encodes keys."""
OF_THE_LOSS = 1 << 20
"""Number of the loss's random key; batches of texts are numbered from 0."""

Cut: TypeAlias = tuple[str, str, int]
"""Location of a column's vectors: the name of the vectors, the column, its number of rows."""


class JaxTower:
    """An encoder in training, as compiled functions."""

    def __init__(self, name: str, encoder: JaxEncoder, alone: bool) -> None:
        self.name, self.encoder = name, encoder
        parameters = encoder.function.trained()
        devices = encoder.devices
        require_trainable(name, alone, encoder.module, parameters, devices.bf16)
        self.names = frozenset(parameters)
        layout, jit = devices.layout, devices.compiled.jit
        function = encoder.function
        weights = layout.weights(self.trained)

        def forward(trained: Arrays, fixed: Arrays, batch: Any, key: Any) -> jax.Array:
            return function(fixed | trained, batch, key, "train")

        def keys(trained: Arrays, fixed: Arrays, batch: Any, key: Any) -> jax.Array:
            return function(fixed | trained, batch, key, "key")

        def forward_and_back(
            trained: Arrays, fixed: Arrays, batch: Any, key: Any
        ) -> Any:
            return jax.vjp(lambda weights: forward(weights, fixed, batch, key), trained)

        def backward(
            gradient: Arrays, back: Callable[..., Any], slope: jax.Array
        ) -> Arrays:
            added: Arrays = jax.tree.map(jnp.add, gradient, back(slope)[0])
            return added

        def forward_again(
            gradient: Arrays, slope: jax.Array, *arguments: Any
        ) -> Arrays:
            return backward(gradient, forward_and_back(*arguments)[1], slope)

        def copies(arrays: Arrays) -> Arrays:
            return {name: jnp.copy(value) for name, value in arrays.items()}

        def zeros(arrays: Arrays) -> Arrays:
            return {name: jnp.zeros_like(value) for name, value in arrays.items()}

        self.forward = jit(forward, counted=True, out_shardings=layout.rows)
        self.keys = jit(keys, counted=True, out_shardings=layout.rows)
        self.forward_and_back = jit(forward_and_back, counted=True)
        self.backward = jit(backward, donate_argnums=(0,), out_shardings=weights)
        self.forward_again = jit(
            forward_again, donate_argnums=(0,), out_shardings=weights
        )
        self.copies = jit(copies, out_shardings=weights)
        self.zeros = jit(zeros, out_shardings=weights)

    @property
    def trained(self) -> Arrays:
        """The trained weights."""
        return {
            name: value
            for name, value in self.encoder.weights.items()
            if name in self.names
        }

    @property
    def fixed(self) -> Arrays:
        """All other weights, and buffers."""
        return {
            name: value
            for name, value in self.encoder.weights.items()
            if name not in self.names
        }


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
    """Function from the gradient of its rows to that of the weights, if activations are kept."""


class JaxTrainer(Trainer):
    """One stage's optimiser over the encoders that it trains; see `TorchTrainer`.

    `weights` is read from the encoders by tower and name; the loss's are under `loss`.
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
        self.towers = {
            name: JaxTower(name, encoders[name], alone=len(names) == 1)
            for name in names
        }
        self.keys = keys_of(training)
        self.loss = FunctionalLoss(loss, training.loss)
        layout, jit = devices.layout, devices.compiled.jit
        trained = {name: p for name, p in loss.named_parameters() if p.requires_grad}
        self.loss_weights = layout.put(host_arrays(trained))
        parameters = dict(loss.named_parameters()) | dict(loss.named_buffers())
        self.loss_fixed = layout.put(
            host_arrays(
                {
                    name: value
                    for name, value in parameters.items()
                    if name not in trained
                }
            )
        )
        self.state: Arrays | None = None
        if training.loss.traits.stateful:
            initial = host_arrays(loss.initial_state())
            self.state = {
                n: layout.place(_narrow(v), layout.whole) for n, v in initial.items()
            }
        self.averages: dict[str, Arrays] = {
            name: self.towers[name].copies(self.towers[name].trained)
            for name in keyed_towers(training)
        }
        self.decays = dict.fromkeys(self.averages, training.loss.traits.momentum or 0.0)
        if training.ema is not None:
            self.decays |= {EMA + name: training.ema for name in names}
            self.averages |= {
                EMA + name: tower.copies(tower.trained)
                for name, tower in self.towers.items()
            }
        self.steps = 0
        self.key = jax.random.fold_in(key, 1)
        self.settings = settings_of(loss, training.loss, "loss.")
        require_decay(self.settings, training.optimizer)
        self.rate_factors = {
            name: rate_factor(special, training.optimizer)
            for name, special in self.settings.items()
        }
        """What the learning rate of a step is multiplied by, for parameters that have one of their own."""
        shapes = {name: tuple(value.shape) for name, value in self.weights().items()}
        self.transform = self._transform(shapes)
        initial = self.transform.init
        spread = jax.tree.map(
            lambda value: layout.weight(value.shape),
            jax.eval_shape(initial, self.weights()),
        )
        self.optimizer = jit(initial, out_shardings=spread)(self.weights())
        self._contrast = jit(
            self._loss_and_slopes, static_argnums=(6, 7), out_shardings=layout.whole
        )
        self._scatter = jit(_scatter, donate_argnums=(0,), out_shardings=layout.whole)
        self._gather = jit(_gather, out_shardings=layout.rows)
        self._update = jit(self._updated, donate_argnums=(0, 1, 2, 3))

    def _transform(self, shapes: Mapping[str, tuple[int, ...]]) -> Any:
        """Return the optimiser's updates, with the decay of parameters that have one of their own."""
        optimizer = self.training.optimizer
        decays = {}
        for name, special in self.settings.items():
            if special.weight_decay is not None:
                decays[name] = special.weight_decay
        if not decays:
            return _optax(optimizer, shapes)
        transforms = {"": _optax(optimizer, shapes)}
        for name, decay in decays.items():
            if _is_decayed(optimizer, name, shapes):
                # The optimiser may scale its decay, as Adafactor does.
                transforms[name] = _optax(_with_decay(optimizer, decay), shapes)
            else:
                undecayed = _optax(_with_decay(optimizer, 0.0), shapes)
                transforms[name] = optax.chain(
                    undecayed, optax.add_decayed_weights(decay)
                )
        labels = {name: name if name in decays else "" for name in shapes}
        return optax.multi_transform(transforms, labels)

    def weights(self) -> Arrays:
        """All trained weights, by the names of `Trainer.gradients`."""
        weights = {
            f"{name}.{key}": w
            for name, tower in self.towers.items()
            for key, w in tower.trained.items()
        }
        return weights | {f"loss.{name}": w for name, w in self.loss_weights.items()}

    def take(self, weights: Arrays) -> None:
        """Give new weights to their owners."""
        for name, tower in self.towers.items():
            tower.encoder.weights |= {
                key: weights[f"{name}.{key}"] for key in tower.names
            }
        self.loss_weights = {
            name: weights[f"loss.{name}"] for name in self.loss_weights
        }

    # --- one step ------------------------------------------------------------------------------------------

    @in_all_processes
    def step(self, columns: Columns) -> StepResult:
        """Take a training step; nothing changes if loss or gradient is not finite."""
        rate = learning_rate(self.training, self.steps)
        loss, metrics, after, gradients = self.backward(columns)
        if self.steps == 0:
            self._require_all(gradients, columns)
        norm = self.update(gradients, after, loss, rate)
        good = math.isfinite(loss) and math.isfinite(norm)
        origin = "" if good else self._origin_of_fault(columns, float(loss))
        self.steps += 1
        numbers = {name: float(value) for name, value in metrics.items()}
        numbers["compiled_shapes"] = float(self.devices.compiled.shapes)
        return StepResult(float(loss), rate, float(norm), numbers, fault=origin)

    def _require_all(self, gradients: Arrays, columns: Columns) -> None:
        """Raise `PluginError` for a trained part of an encoder that no gradient reaches."""
        if self.processes.world > 1:
            return
        nonzero = self.devices.compiled.jit(
            lambda arrays: {k: jnp.any(v != 0) for k, v in arrays.items()}
        )
        is_nonzero = {name: bool(value) for name, value in nonzero(gradients).items()}
        for name, tower in self.towers.items():
            reached = {key: is_nonzero[f"{name}.{key}"] for key in tower.names}
            # A gradient of zero may be right: whether one can come is seen in PyTorch's graph.
            if cut(name, tower.encoder.module, reached) is not None:
                batch = self._a_batch(tower, columns)
                error = cut(
                    name,
                    tower.encoder.module,
                    connected(tower.encoder.module, tower.names, batch),
                )
                if error is not None:
                    raise error

    def _a_batch(self, tower: JaxTower, columns: Columns) -> TokenBatch:
        """Return the first texts of a tower, at most two."""
        texts = [
            tokens
            for name, tokens in columns.items()
            if isinstance(tokens, TokenIds) and self.training.towers[name] == tower.name
        ]
        tokens = texts[0]
        rows = np.arange(min(2, len(tokens)))
        return pad(tokens, rows, tower.encoder.backbone.tokenizer.pad_id)

    def _origin_of_fault(self, columns: Columns, loss: float) -> str:
        """Return what gave the first number that is not finite in a step; "" if that cannot be told."""
        if self.processes.world > 1:
            return ""
        encoders = {name: tower.encoder for name, tower in self.towers.items()}
        for column, tokens in columns.items():
            if isinstance(tokens, TokenIds):
                encoder = encoders[self.training.towers[column]]
                for rows in plan_batches(
                    tokens.lengths, encoder.devices.buckets.token_budget
                ):
                    batch = pad(tokens, rows, encoder.backbone.tokenizer.pad_id)
                    if origin := encoder.origin_of_nan(batch):
                        return came_from(origin)
        if frozen_nan(columns):
            return came_from("a frozen encoder")
        named = named_loss(self.training.loss)
        if not math.isfinite(loss):
            return came_from(f"{named}: the vectors that it got have none")
        parts = named_parts(next(iter(encoders.values())).module)
        return came_from(f"the gradient of {named}, {parts}")

    def update(
        self, gradients: Arrays, after: Arrays | None, loss: jax.Array, rate: float
    ) -> jax.Array:
        """Update weights, averages and states, and return the norm of the gradient."""
        before = self.weights(), self.optimizer, self.averages, self.state
        weights, self.optimizer, self.averages, self.state, norm = self._update(
            *before, gradients, after, loss, np.float32(rate)
        )
        self.take(weights)
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
        return float(loss), {
            name: self.devices.layout.fetch(value) for name, value in gradients.items()
        }

    def backward(
        self, columns: Columns
    ) -> tuple[jax.Array, Arrays, Arrays | None, Arrays]:
        """Return loss, metrics, the loss's next state, and the gradient by the name of each parameter."""
        layout = self.devices.layout
        self.key, key = jax.random.split(self.key)
        vectors: Arrays = {}
        cuts: tuple[Cut, ...] = ()
        passes: list[_Pass] = []
        numbers = itertools.count()
        for tower in self.towers.values():
            for is_key in (False, True):
                texts_of_tower = {
                    name: tokens
                    for name, tokens in columns.items()
                    if isinstance(tokens, TokenIds)
                    and self.training.towers[name] == tower.name
                    and (name in self.keys) == is_key
                }
                if texts_of_tower:
                    place = f"{tower.name} {'keys' if is_key else 'texts'}"
                    cuts += tuple(
                        (place, name, len(tokens))
                        for name, tokens in texts_of_tower.items()
                    )
                    texts = len(texts_of_tower) * texts_a_row(self.training, tower.name)
                    vectors[place], made = self._encode(
                        tower,
                        place,
                        TokenIds.join(texts_of_tower.values()),
                        texts,
                        is_key,
                        key,
                        numbers,
                    )
                    passes += made
        other_inputs = {
            name: layout.place(_narrow(np.asarray(values)), layout.whole)
            for name, values in columns.items()
            if not isinstance(values, TokenIds)
        }
        (loss, (metrics, after)), (slopes, of_loss) = self._contrast(
            vectors,
            self.loss_weights,
            self.loss_fixed,
            other_inputs,
            self.state,
            layout.key(jax.random.fold_in(key, OF_THE_LOSS)),
            cuts,
            tuple(columns),
        )
        gradients = {
            name: tower.zeros(tower.trained) for name, tower in self.towers.items()
        }
        while passes:
            # This frees its activations.
            last = passes.pop()
            tower = last.tower
            gradient, slope = (
                gradients[tower.name],
                self._gather(slopes[last.vectors], last.places),
            )
            if last.back is not None:
                gradients[tower.name] = tower.backward(gradient, last.back, slope)
            else:
                again = tower.trained, tower.fixed, last.batch, last.key
                gradients[tower.name] = tower.forward_again(gradient, slope, *again)
            del last
        of_towers = {
            f"{name}.{key}": g
            for name, of in gradients.items()
            for key, g in of.items()
        }
        return (
            loss,
            metrics,
            after,
            of_towers | {f"loss.{name}": g for name, g in of_loss.items()},
        )

    def _encode(
        self,
        tower: JaxTower,
        place: str,
        tokens: TokenIds,
        columns: int,
        is_key: bool,
        key: jax.Array,
        numbers: Iterator[int],
    ) -> tuple[jax.Array, list[_Pass]]:
        """Return the vectors of all texts, `(texts, width)`, and the backward pass of each batch."""
        devices, encoder = self.devices, tower.encoder
        micro_batch = self.training.micro_batch
        if micro_batch is not None:
            micro_batch *= devices.layout.mesh.size
        if micro_batch is not None and micro_batch * columns >= len(tokens):
            micro_batch = None
        most = None if micro_batch is None else micro_batch * columns
        vectors = devices.layout.place(
            np.zeros((len(tokens), encoder.trained_width), np.float32),
            devices.layout.whole,
        )
        passes = []
        trained = self.averages[tower.name] if is_key else tower.trained
        for chosen, rows, length in devices.buckets.plan(
            tokens.lengths, encoder.longest, most
        ):
            pad_id = encoder.backbone.tokenizer.pad_id
            batch = encoder.place(
                pad(tokens, chosen, pad_id).widened(rows, length, pad_id)
            )
            own = jax.random.fold_in(key, next(numbers))
            arguments = trained, tower.fixed, batch, devices.layout.key(own)
            back = None
            if is_key:
                found = tower.keys(*arguments)
            elif micro_batch is None:
                found, back = tower.forward_and_back(*arguments)
            else:
                found = tower.forward(*arguments)
            # The rows of padding are written after the last text, out of range, and so dropped.
            places = np.full(rows, len(tokens), np.int32)
            places[: len(chosen)] = chosen
            into = devices.layout.place(places, devices.layout.rows)
            vectors = self._scatter(vectors, found, into)
            if not is_key:
                passes.append(_Pass(tower, place, into, batch, arguments[-1], back))
        return vectors, passes

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
            inputs, starts = dict(other_inputs), dict.fromkeys(vectors, 0)
            for place, column, rows in cuts:
                part = vectors[place][starts[place] : starts[place] + rows]
                inputs[column] = joined(
                    self.training, self.training.towers[column], part
                )
                starts[place] += rows
            return self.loss(
                loss_weights, fixed, {name: inputs[name] for name in order}, state, key
            )

        return jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(
            vectors, loss_weights
        )

    def _updated(
        self,
        weights: Arrays,
        optimizer: Any,
        averages: dict[str, Arrays],
        state: Arrays | None,
        gradients: Arrays,
        after: Arrays | None,
        loss: jax.Array,
        rate: jax.Array,
    ) -> Any:
        """Return the new values of everything that a step changes, and the norm of the gradient."""
        norm = optax.tree.norm(gradients)
        limit = self.training.max_grad_norm
        # As in torch's clipping, which has the small number in its divisor.
        scale = jnp.minimum(1.0, limit / (norm + 1e-6)) if limit else 1.0

        def take() -> Any:
            clipped = jax.tree.map(lambda gradient: gradient * scale, gradients)
            updates, moved = self.transform.update(clipped, optimizer, weights)
            new = {
                name: value - rate * self.rate_factors.get(name, 1.0) * updates[name]
                for name, value in weights.items()
            }
            followed = {
                name: {
                    key: self.decays[name] * old
                    + (1 - self.decays[name]) * new[f"{name.removeprefix(EMA)}.{key}"]
                    for key, old in of.items()
                }
                for name, of in averages.items()
            }
            return new, moved, followed, after

        keep = weights, optimizer, averages, state
        good = jnp.isfinite(norm) & jnp.isfinite(loss)
        result = jax.tree.map(lambda new, old: jnp.where(good, new, old), take(), keep)
        return *jax.lax.with_sharding_constraint(result, self._layouts(result)), norm

    def _layouts(self, state_of_step: Any) -> Any:
        """Return the shardings of weights, optimiser, averages and the loss's state."""
        layout = self.devices.layout
        weights, optimizer, averages, state = state_of_step
        spread = jax.tree.map(
            lambda value: layout.weight(value.shape), (weights, optimizer, averages)
        )
        whole = jax.tree.map(lambda _: layout.whole, state)
        return *spread, whole

    # --- state ---------------------------------------------------------------------------------------------

    def save(self, directory: Path) -> None:
        """Write everything that determines later steps into the empty `directory`."""
        values = {
            "steps": self.steps,
            "optimizer": self.training.optimizer.name,
            "random": host_draws(),
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
        require_same_tensors(arrays, self.held_by_name(), directory)
        self.restore(values, arrays)

    def held(self) -> dict[str, Any]:
        """Return every array that determines later steps."""
        return {
            "weights": self.weights(),
            "optimizer": self.optimizer,
            "averages": self.averages,
            "state": self.state or {},
            "key": jax.random.key_data(self.key),
        }

    def held_by_name(self) -> dict[str, jax.Array]:
        """Return the arrays of `held` by a name for each."""
        leaves = jax.tree_util.tree_flatten_with_path(self.held())[0]
        return {
            jax.tree_util.keystr(path, simple=True, separator="/"): value
            for path, value in leaves
        }

    @in_all_processes
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `held` on the host; called by all processes."""
        return {
            name: self.devices.layout.fetch(value)
            for name, value in self.held_by_name().items()
        }

    @in_all_processes
    def restore(
        self, values: Mapping[str, Any], saved: Mapping[str, NDArray[Any]]
    ) -> None:
        """Restore the values and arrays of a state; called by all processes."""
        layout = self.devices.layout
        placed = []
        for name, value in self.held_by_name().items():
            placed.append(layout.place(saved[name], value.sharding))
        arrays = jax.tree.unflatten(jax.tree.structure(self.held()), placed)
        self.take(arrays["weights"])
        self.optimizer, self.averages = arrays["optimizer"], arrays["averages"]
        self.state = arrays["state"] if self.state is not None else None
        self.key = jax.random.wrap_key_data(jnp.asarray(saved["key"]))
        self.steps = values["steps"]
        rewind_host(values["random"])


def _optax(
    optimizer: Optimizer, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
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


def _is_decayed(
    optimizer: Optimizer, name: str, shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether an optimiser with a `weight_decay` decays the parameter `name` at all; AdamW spares vectors.

    It is tried on a weight of ones whose gradient is zero, which then moves by its decay only.
    """
    transform = _optax(_with_decay(optimizer, 1.0), {name: shapes[name]})
    weights = {name: jnp.ones(shapes[name])}
    gradients = {name: jnp.zeros(shapes[name])}
    updates, _ = transform.update(gradients, transform.init(weights), weights)
    return bool(jnp.any(updates[name] != 0))


def _scatter(into: jax.Array, vectors: jax.Array, places: jax.Array) -> jax.Array:
    return into.at[places].set(vectors, mode="drop")


def _gather(slopes: jax.Array, places: jax.Array) -> jax.Array:
    return slopes.at[places].get(mode="fill", fill_value=0.0)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers as JAX's 32-bit ones; text ids keep 31 bits."""
    return (
        (values & 0x7FFFFFFF).astype(np.int32) if values.dtype == np.int64 else values
    )
