"""The engine on JAX, which places weights on a mesh of devices, encodes batches and trains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import RuntimeUnavailableError
from sentbed.helpers import returned
from sentbed.protocols import (
    BuiltBackbone,
    Engine,
    Head,
    PlacedEncoder,
    Pooler,
    TokenBatch,
    Training,
)
from sentbed_common import cache_root, rows_of

from sentbed_hardware._jax import lead_engine
from sentbed_hardware._jax.compiled_functions import Compiled
from sentbed_hardware._jax.mesh import Layout
from sentbed_hardware._jax.pure_functions import Arrays, FunctionalEncoder
from sentbed_hardware._jax.shape_buckets import Buckets, widen
from sentbed_hardware._jax.trainer import JaxTrainer
from sentbed_hardware.engine_parts.component_output_checks import origin_of_nan, require_finite
from sentbed_hardware.engine_parts.encoder_module import (
    BACKBONE_DIRECTORY,
    MODULES_FILE,
    EncoderModule,
    assembled,
    save_modules,
)
from sentbed_hardware.engine_parts.process_group import Processes
from sentbed_hardware.engine_parts.training_settings import common_width, refuse_predictions

if TYPE_CHECKING:
    from sentbed_hardware.tpu import Tpu


def build_engine(parameters: Tpu) -> Engine:
    """See `Tpu.build`."""
    processes = lead_engine.join(parameters)
    devices = _devices(parameters, processes.world)
    # Without this, a TPU computes fp32 products in bf16.
    jax.config.update("jax_default_matmul_precision", "highest")
    if parameters.platform == "tpu" and not jax.config.values["jax_compilation_cache_dir"]:
        # A large model takes minutes to compile, and the next run needs the same shapes.
        jax.config.update("jax_compilation_cache_dir", str(cache_root() / "xla"))
    layout = Layout.over(devices, parameters.parallel == "fsdp")
    count = len(devices)
    precision = "bf16" if parameters.precision == "auto" else parameters.precision
    facts = {
        "runtime": parameters.name,
        "platform": parameters.platform,
        "device": devices[0].device_kind,
        "devices": count,
        "precision": precision,
        "lengths": list(parameters.lengths),
        "jax": jax.__version__,
        "torchax": version("torchax"),
    }
    if count > 1:
        facts["parallel"] = parameters.parallel
    if processes.world > 1:
        facts["processes"] = processes.world
    buckets = Buckets(parameters.lengths, parameters.token_budget * count, count)
    engine = JaxEngine(layout, buckets, precision == "bf16", facts)
    engine.processes = processes
    return lead_engine.lead(engine)


def _devices(parameters: Tpu, processes: int) -> list[Any]:
    wanted = parameters.devices
    if parameters.platform == "cpu":
        wanted = wanted or 1
        try:
            jax.config.update("jax_platforms", "cpu")
            if wanted > 1:
                jax.config.update("jax_num_cpu_devices", wanted)
        except RuntimeError:
            pass  # JAX runs already in this process, with what it has
    try:
        found = jax.devices(parameters.platform)
    except RuntimeError as error:
        raise RuntimeUnavailableError(
            f'JAX finds no {parameters.platform.upper()}: {error}; use `platform = "cpu"` to try this '
            "runtime without one, or the runtime `cpu` or `cuda`"
        ) from error
    of = [[device for device in found if device.process_index == rank] for rank in range(processes)]
    fewest = min(map(len, of))
    if wanted is not None and wanted > fewest:
        message = f"`devices` is {wanted}, and JAX has {fewest} here; set `devices = {fewest}`"
        if parameters.platform == "cpu":
            message += f", or XLA_FLAGS=--xla_force_host_platform_device_count={wanted} in the environment"
        raise RuntimeUnavailableError(message)
    return [device for own in of for device in own[:wanted]]


class JaxEngine(Engine):
    """A mesh of devices. `facts` is what `describe` returns."""

    def __init__(self, layout: Layout, buckets: Buckets, bf16: bool, facts: Mapping[str, Any]) -> None:
        self.layout = layout
        self.buckets = buckets
        self.bf16 = bf16
        self.facts = facts
        self.token_budget = buckets.token_budget
        self.compiled = Compiled()
        self.key = jax.random.key(0)
        self.processes = Processes()
        self.say: Callable[[str], None] = logging.getLogger("sentbed").warning

    def report_to(self, say: Callable[[str], None]) -> None:
        """Call `say` with messages for the user."""
        self.say = say

    def describe(self) -> Mapping[str, Any]:
        """Return platform, devices and precision in use."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the counts of compilations and the peak memory of a device."""
        found = dict(self.compiled.counters())
        statistics = self.layout.mesh.local_devices[0].memory_stats() or {}
        if "peak_bytes_in_use" in statistics:
            found["device_memory_gib"] = statistics["peak_bytes_in_use"] / 2**30
        return found

    def seed(self, seed: int) -> None:
        """Seed initialisation, which torch does on the host, and dropout, which JAX does."""
        torch.manual_seed(seed)
        self.key = jax.random.key(seed % 2**32)

    def assemble(
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
    ) -> JaxEncoder:
        """Build pooler and head and put all weights on the devices."""
        module = assembled(backbone, pooler, head, saved)
        encoder: JaxEncoder = self.processes.together(JaxEncoder, self, backbone, module)
        return encoder

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> JaxTrainer:
        """Prepare training of the encoders that `training.towers` names."""
        refuse_predictions(training, "this engine, on JAX, has no training of them")
        # Its weights are drawn in one process and sent to all.
        loss = returned(
            training.loss.build(common_width(encoders, training)), torch.nn.Module, training.loss, "build"
        )
        trainer: JaxTrainer = self.processes.together(JaxTrainer, self, encoders, training, loss)
        return trainer


class JaxEncoder(PlacedEncoder):
    """Backbone, pooler and head as arrays on the devices.

    `weights` are the arrays, of which some may be given; the torch module on the host keeps the structure,
    and gets them for saving.
    """

    asynchronous = True

    def __init__(
        self,
        engine: JaxEngine,
        backbone: BuiltBackbone,
        module: EncoderModule,
        weights: Arrays | None = None,
    ) -> None:
        self.engine = engine
        self.backbone = backbone
        self.module: EncoderModule = module
        self.width, self.trained_width = module.width, module.trained_width
        self.fitted_on = module.fitted_on
        self.parameter_counts = module.parameter_counts
        self.function = FunctionalEncoder(module, engine.bf16)
        held = weights or {}
        new = {name: value for name, value in self.function.weights().items() if name not in held}
        self.weights = {**held, **engine.layout.put(new)}

        def encode(weights: Arrays, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
            return self.function(weights, batch, jax.random.key_data(jax.random.key(0)), "eval")

        self._encode = engine.compiled.jit(encode, counted=True, out_shardings=engine.layout.rows)

    @property
    def longest(self) -> int:
        """The largest number of tokens that the positions allow."""
        return self.backbone.max_length

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the texts of each batch, given their lengths in tokens."""
        for chosen, _, _ in self.engine.buckets.plan(lengths, self.longest):
            yield chosen

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        return next(self.encode_batches([batch]))

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of each batch; the next batch is started before waiting for them."""
        before: tuple[list[tuple[jax.Array, int]], TokenBatch] | None = None
        for batch in batches:
            now = list(self._started(batch)), batch
            if before is not None:
                yield self._vectors(*before)
            before = now
        if before is not None:
            yield self._vectors(*before)

    def _started(self, batch: TokenBatch) -> Iterator[tuple[jax.Array, int]]:
        """Start a batch, in pieces of the largest shape; yield pending vectors and their number."""
        rows, tokens = batch.input_ids.shape
        buckets = self.engine.buckets
        length = buckets.length(tokens, self.longest)
        most = buckets.most(length)
        for start in range(0, rows, most):
            piece = rows_of(batch, slice(start, start + most))
            count = len(piece.input_ids)
            piece = widen(piece, buckets.rows(count, length), length, self.backbone.tokenizer.pad_id)
            yield self._encode(self.weights, self.place(piece)), count

    def _vectors(self, started: Iterable[tuple[jax.Array, int]], batch: TokenBatch) -> NDArray[np.float32]:
        parts = [self.engine.layout.fetch(found)[:rows] for found, rows in started]
        vectors = np.concatenate([np.empty((0, self.width), np.float32), *parts])
        return require_finite(vectors, batch, self.origin_of_nan)

    def origin_of_nan(self, batch: TokenBatch) -> str:
        """Return which part gives NaN or infinity for a batch, as PyTorch computes it on the host; or ""."""
        if self.engine.processes.world > 1:
            return ""
        self.to_host()
        self.module.eval()
        mask = None if batch.attention_mask is None else torch.from_numpy(batch.attention_mask)
        ids = torch.from_numpy(batch.input_ids)
        return origin_of_nan(self.module, self.module.backbone, (ids, mask))

    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite, or None if there is none."""
        for name, _ in self.module.named_parameters():
            if not bool(jax.numpy.isfinite(self.weights[name]).all()):
                return name
        return None

    def place(self, batch: TokenBatch) -> tuple[jax.Array, jax.Array]:
        """Put a batch on the devices, each with its share of the rows."""
        layout = self.engine.layout
        return layout.place(batch.input_ids, layout.rows), layout.place(batch.attention_mask, layout.rows)

    def to_host(self) -> None:
        """Copy the weights into the torch module."""
        held = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        with torch.no_grad():
            for name, array in self.weights.items():
                value = self.engine.layout.fetch(array)
                # torch does not accept NumPy's bf16, and fp32 represents all of its values.
                exact = np.float32 if array.dtype == jax.numpy.bfloat16 else value.dtype
                held[name].copy_(torch.from_numpy(np.array(value, exact)))

    def transformed(self, fit: Any = None, on: Mapping[str, Any] | None = None) -> JaxEncoder:
        """Return this encoder with a fitted transform, or one that gives its input; weights are shared."""
        module = self.module.transformed(fit, on)
        held = {name: value for name, value in self.weights.items() if not name.startswith("transform.")}
        return JaxEncoder(self.engine, self.backbone, module, held)

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code between tokens and vector."""
        self.to_host()
        return self.hash()

    def hash(self) -> str | None:
        """Return `fingerprint` of the torch module."""
        facts = self.engine.facts
        return self.module.fingerprint([f"{key} {facts[key]}" for key in sorted(facts)])

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        self.to_host()
        self.write(directory)

    def write(self, directory: Path) -> None:
        """Write the torch module."""
        self.backbone.save(directory / BACKBONE_DIRECTORY)
        save_modules(self.module, directory / MODULES_FILE)
