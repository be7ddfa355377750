"""An encoder of the engine on JAX."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone, TokenBatch
from sentbed_hardware.engine_parts.component_output_checks import require_finite
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder

from sentbed_tpu._jax.devices import JaxDevices
from sentbed_tpu._jax.pure_functions import Arrays, Batch, FunctionalEncoder


class JaxEncoder(ModuleEncoder):
    """An encoder whose weights are arrays on the devices.

    `weights` are the weights that are arrays on the devices already. All other weights are copied from `module`.
    `facts` are those of the engine. The torch module stays on the host: its code is run on the arrays. The arrays
    are copied into it when the host needs them, for example to save the encoder.
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
        self.asynchronous = True
        self.pad_id = backbone.tokenizer.pad_id
        self.function = FunctionalEncoder(module, devices.bf16)

        self.weights = dict(weights or {})
        new = {}
        for name, value in self.function.weights().items():
            if name not in self.weights:
                new[name] = value

        self.weights |= devices.layout.put(new)
        self._compute_vectors = jax.jit(
            self._vectors_of, out_shardings=devices.layout.rows
        )

    def _vectors_of(self, weights: Arrays, batch: Batch) -> jax.Array:
        """Return the vectors of a batch."""
        # Nothing is random in eval mode, so any key is right.
        key = jax.random.key_data(jax.random.key(0))
        return self.function(weights, batch, key, "eval")

    @property
    def longest(self) -> int:
        """The largest number of tokens for which the backbone has positions."""
        return self.backbone.max_length

    def plan(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of the texts of each batch; `lengths` are their numbers of tokens."""
        return self.devices.buckets.plan(lengths, self.longest)

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        return next(self.encode_batches([batch]))

    def encode_batches(
        self, batches: Iterable[TokenBatch]
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of each batch. Each batch is started before the vectors of the previous one are
        awaited."""
        previous: tuple[jax.Array, int] | None = None
        for batch in batches:
            started = self._start(batch), len(batch.input_ids)
            if previous is not None:
                yield _vectors_on_host(*previous)
            previous = started

        if previous is not None:
            yield _vectors_on_host(*previous)

    def _start(self, batch: TokenBatch) -> jax.Array:
        """Start to encode a batch; return the vectors of its rows and of padding, which JAX may still compute."""
        rows, tokens = batch.input_ids.shape
        buckets = self.devices.buckets
        length = buckets.length(tokens, self.longest)

        padded = batch.widened(buckets.rows(rows), length, self.pad_id)

        pending: jax.Array = self._compute_vectors(self.weights, self.place(padded))
        return pending

    def place(self, batch: TokenBatch, passes: int | None = None) -> Batch:
        """Put a batch that has a mask on the devices. Each device gets its share of the rows.

        With `passes`, the rows are divided into as many: the arrays have the axes `(passes, rows, length)`.
        """
        layout = self.devices.layout
        arrays = batch.input_ids, batch.attention_mask, dict(batch.keywords)
        if passes is None:
            whole: Batch = jax.device_put(arrays, layout.rows)
            return whole

        def in_passes(values: NDArray[Any]) -> NDArray[Any]:
            return values.reshape(passes, -1, *values.shape[1:])

        divided = jax.tree.map(in_passes, arrays)
        placed: Batch = jax.device_put(divided, layout.rows_of_passes)
        return placed

    def to_host(self) -> None:
        """Copy the weights into the torch module on the host."""
        tensors: dict[str, torch.Tensor] = dict(self.module.named_parameters())
        tensors |= self.module.named_buffers()
        with torch.no_grad():
            for name, array in self.weights.items():
                value = np.asarray(array)
                dtype = value.dtype
                if dtype == jax.numpy.bfloat16:
                    # torch does not accept NumPy's bf16, and fp32 represents all of its values.
                    dtype = np.dtype(np.float32)
                tensors[name].copy_(torch.from_numpy(np.array(value, dtype)))

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> JaxEncoder:
        """Return an encoder with the fitted transform `fit`, which shares its weights with this encoder.

        If `fit` is None, the encoder has no transform: its vectors are those to which one can be fitted. `on`
        describes the texts of the fit; it is saved with the encoder.
        """
        module = self.module.transformed(fit, on)
        shared = {}
        for name, value in self.weights.items():
            if not name.startswith("transform."):
                shared[name] = value

        return JaxEncoder(self.devices, self.facts, self.backbone, module, shared)

    def fingerprint(self) -> str | None:
        """Return a hash of all weights, and of the facts that determine vectors."""
        self.to_host()
        facts = []
        for name, value in sorted(self.facts.items()):
            facts.append(f"{name} {value}")

        return self.module.fingerprint(facts)

    def save(self, directory: Path) -> None:
        """Write the encoder's weights into `directory`; see `ModuleEncoder.save`."""
        self.to_host()
        super().save(directory)


def _vectors_on_host(pending: jax.Array, rows: int) -> NDArray[np.float32]:
    """Wait for the vectors of a batch, check those of its texts and return them."""
    vectors = np.asarray(pending)[:rows]
    return require_finite(vectors)
