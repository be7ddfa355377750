"""An encoder on devices of JAX."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import jax
import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone, TokenBatch
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    host_arguments,
    origin_of_nan,
    require_finite,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.pure_functions import Arrays, Batch, FunctionalEncoder

Pending: TypeAlias = tuple[jax.Array, int]
"""Vectors of a padded batch, which may not have been computed yet, and the number of its rows without padding."""


class JaxEncoder(ModuleEncoder):
    """Backbone, pooler and head as arrays on the devices.

    `weights` are arrays that are on the devices already; the others are copied from `module`. `facts` are the
    engine's. The torch module on the host keeps the structure, and gets the weights for saving.
    """

    def __init__(
        self,
        devices: JaxDevices,
        facts: Mapping[str, Any],
        backbone: BuiltBackbone,
        module: EncoderModule,
        weights: Arrays | None = None,
    ) -> None:
        super().__init__(backbone, module)
        self.devices = devices
        self.facts = facts
        self.processes = devices.processes
        self.asynchronous = devices.processes.world == 1
        self.pad_id = backbone.tokenizer.pad_id
        self.function = FunctionalEncoder(module, devices.bf16)

        self.weights = dict(weights or {})
        on_host = self.function.weights()
        new = {name: on_host[name] for name in on_host if name not in self.weights}
        self.weights |= devices.layout.put(new)
        self._encode = devices.compiled.jit(
            self._encoded, counted=True, out_shardings=devices.layout.rows
        )

    def _encoded(self, weights: Arrays, batch: Batch) -> jax.Array:
        """Return the vectors of a batch; nothing is drawn from the key."""
        key = jax.random.key_data(jax.random.key(0))
        return self.function(weights, batch, key, "eval")

    @property
    def longest(self) -> int:
        """The largest number of tokens that the positions allow."""
        return self.backbone.max_length

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the texts of each batch, given their lengths in tokens."""
        for chosen, _, _ in self.devices.buckets.plan(lengths, self.longest):
            yield chosen

    @in_all_processes
    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        return next(self.encode_batches([batch]))

    def encode_batches(
        self, batches: Iterable[TokenBatch]
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of each batch; the next batch is started before waiting for them."""
        if self.processes.leads:
            yield from map(self.encode, batches)
            return

        started: deque[tuple[list[Pending], TokenBatch]] = deque()
        for batch in batches:
            started.append((list(self._started(batch)), batch))
            if len(started) > 1:
                yield self._vectors(*started.popleft())

        if started:
            yield self._vectors(*started.popleft())

    def _started(self, batch: TokenBatch) -> Iterator[Pending]:
        """Start a batch, in pieces of the largest shape."""
        rows, tokens = batch.input_ids.shape
        buckets = self.devices.buckets
        length = buckets.length(tokens, self.longest)
        most = buckets.most(length)
        for start in range(0, rows, most):
            piece = batch.select(slice(start, start + most))
            count = len(piece.input_ids)
            padded = piece.widened(buckets.rows(count, length), length, self.pad_id)
            yield self._encode(self.weights, self.place(padded)), count

    def _vectors(
        self, started: Iterable[Pending], batch: TokenBatch
    ) -> NDArray[np.float32]:
        """Wait for the vectors of a batch."""
        parts = [np.empty((0, self.width), np.float32)]
        for pending, rows in started:
            parts.append(self.devices.layout.fetch(pending)[:rows])

        return require_finite(np.concatenate(parts), batch, self.origin_of_nan)

    def origin_of_nan(self, batch: TokenBatch) -> str:
        """Return which part gives NaN or infinity for a batch in PyTorch on the host; "" if none does."""
        if self.processes.world > 1:
            return ""

        self.to_host()
        self.module.eval()
        tensors, keywords = host_arguments(batch)
        return origin_of_nan(self.module, self.module.backbone, tensors, keywords)

    @in_all_processes
    def broken_weight(self) -> str | None:
        """Return the name of a weight that is NaN or infinite, or None if there is none."""
        for name, _ in self.module.named_parameters():
            if not bool(jax.numpy.isfinite(self.weights[name]).all()):
                return name

        return None

    def place(self, batch: TokenBatch) -> Batch:
        """Put a batch that has a mask on the devices, each with its share of the rows."""
        layout = self.devices.layout

        def placed(values: NDArray[Any]) -> jax.Array:
            # JAX has no 64-bit integers.
            if values.dtype == np.int64:
                values = values.astype(np.int32)
            return layout.place(values, layout.rows)

        assert batch.attention_mask is not None
        keywords = {name: placed(values) for name, values in batch.keywords.items()}
        return placed(batch.input_ids), placed(batch.attention_mask), keywords

    @in_all_processes
    def to_host(self) -> None:
        """Copy the weights into the torch module."""
        tensors: dict[str, torch.Tensor] = dict(self.module.named_parameters())
        tensors |= self.module.named_buffers()
        with torch.no_grad():
            for name, array in self.weights.items():
                value = self.devices.layout.fetch(array)
                dtype = value.dtype
                if dtype == jax.numpy.bfloat16:
                    # torch does not accept NumPy's bf16, and fp32 represents all of its values.
                    dtype = np.dtype(np.float32)
                tensors[name].copy_(torch.from_numpy(np.array(value, dtype)))

    @in_all_processes
    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> JaxEncoder:
        """Return this encoder with a fitted transform, or one that gives its input; weights are shared."""
        module = self.module.transformed(fit, on)
        shared = {}
        for name, value in self.weights.items():
            if not name.startswith("transform."):
                shared[name] = value

        return JaxEncoder(self.devices, self.facts, self.backbone, module, shared)

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code between tokens and vector."""
        self.to_host()
        facts = [f"{name} {value}" for name, value in sorted(self.facts.items())]
        return self.module.fingerprint(facts)

    def save(self, directory: Path) -> Mapping[str, str]:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        self.to_host()
        return super().save(directory)
