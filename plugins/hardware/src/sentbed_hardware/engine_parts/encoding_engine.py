"""The base class of engines that only encode, by another library's form of a torch module.

A subclass compiles an encoder into one function; building, widths, files, fitted transforms and the choice of
dimensions are as on the runtime `cpu`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import RunError
from sentbed.helpers import fault
from sentbed.protocols import BuiltBackbone, Engine, Head, Pooler, TokenBatch
from torch import nn

from sentbed_hardware.engine_parts.component_output_checks import (
    Vectors,
    host_arguments,
    origin_of_nan,
    require_finite,
    require_finite_weights,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, assembled
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder

Project: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Vectors]
"""Token ids and mask, each `(batch, length)` -> projected vectors `(batch, EncoderModule.untransformed_width)`,
before transform, choice of dimensions and norm."""

TOKEN_BUDGET = 4096
"""Tokens per batch: matrix products of a processor are fastest from about 2,000 on."""

LEAST_NORM = 1e-12
"""Smallest divisor when normalising, as in `torch.nn.functional.normalize`."""

READ = ("input_ids", "attention_mask")
"""Fields of a `TokenBatch` that a graph has as inputs."""


class EncodingEngine(Engine):
    """An engine that encodes with another library, on the host's processor.

    `facts` are returned by `describe`: `runtime`, `precision`, the library's version, threads. With several
    `streams`, as many threads call the compiled function at a time.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        token_budget: int = TOKEN_BUDGET,
        streams: int = 1,
    ) -> None:
        self.facts = facts
        self.streams = streams
        self.token_budget = token_budget
        self.compile_seconds = 0.0

    def compiled(self, backbone: BuiltBackbone, module: EncoderModule) -> Project:
        """Compile an encoder with its current weights.

        `TraceableEncoder(module, backbone)` is the torch module to trace or export. Called once, before the
        first batch. Raises `ModelError` with a remedy if the library does not support a part.
        """
        raise NotImplementedError

    def protocol_of(self, encoder: EncodingEncoder) -> Mapping[str, Any]:
        """Return `PlacedEncoder.protocol`. It may call `encoder.project()`, which compiles the encoder."""
        return {}

    def describe(self) -> Mapping[str, Any]:
        """Return the engine's facts."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the seconds that compilation took."""
        return {"compile_seconds": self.compile_seconds}

    def seed(self, seed: int) -> None:
        """Seed initialisation, which PyTorch does."""
        torch.manual_seed(seed)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> EncodingEncoder:
        """Build pooler and head; the encoder is compiled before its first batch."""
        module = assembled(backbone, pooler, head, saved)
        return EncodingEncoder(self, backbone, module)


@attrs.define(eq=False)
class _Made:
    """The compiled function, which encoders of the same weights share; None before compilation."""

    project: Project | None = None


class EncodingEncoder(ModuleEncoder):
    """An encoder whose backbone, pooler and projection are computed by another library."""

    def __init__(
        self,
        engine: EncodingEngine,
        backbone: BuiltBackbone,
        module: EncoderModule,
    ) -> None:
        super().__init__(backbone, module)
        self.engine = engine
        self.made = _Made()

    @property
    def protocol(self) -> Mapping[str, Any]:
        """The engine's statements on how vectors are computed."""
        return self.engine.protocol_of(self)

    def project(self) -> Project:
        """Return the compiled function; compile it first if that has not been done."""
        if self.made.project is None:
            require_finite_weights(self.module)
            start = time.perf_counter()
            self.made.project = self.engine.compiled(self.backbone, self.module)
            self.engine.compile_seconds += time.perf_counter() - start

        return self.made.project

    def weights_changed(self) -> None:
        """Compile again before the next batch."""
        self.made.project = None

    def encode(self, batch: TokenBatch) -> Vectors:
        """Return sentence vectors `(batch, width)`.

        Raises:
            RunError: if the batch has more than ids and a mask, which a graph does not read.
            NotFiniteError: if a vector is not finite, with the part that gives NaN or infinity.
        """
        self._require_plain(batch)
        mask = batch.attention_mask
        if mask is None:
            mask = np.ones_like(batch.input_ids)
        projected = self.project()(batch.input_ids, mask)
        self._require_projected(projected, len(batch.input_ids))
        return require_finite(self._finished(projected), batch, self._origin_of_nan)

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Vectors]:
        """Yield the vectors of each batch, in order; each stream of the engine is a thread."""
        streams = self.engine.streams
        if streams == 1:
            yield from map(self.encode, batches)
            return

        waiting: deque[Future[Vectors]] = deque()
        pool = ThreadPoolExecutor(streams, "encode")
        try:
            for batch in batches:
                # Here, so that only one thread compiles.
                self.project()
                waiting.append(pool.submit(self.encode, batch))
                if len(waiting) > streams:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _finished(self, projected: Vectors) -> Vectors:
        """Transform, cut and normalise vectors as `EncoderModule.finish` does.

        In NumPy, so that a counter of PyTorch's operations, which sees none of the library's, counts none.
        """
        module, vectors = self.module, projected
        if module.gives_input:
            return vectors

        if isinstance(module.transform, nn.Linear):
            matrix = module.transform.weight.detach().numpy()
            vectors = vectors @ matrix.T + module.transform.bias.detach().numpy()

        vectors = vectors[:, : module.dimensions]
        if module.normalize:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = vectors / np.maximum(norms, LEAST_NORM)

        return vectors

    def _require_plain(self, batch: TokenBatch) -> None:
        runtime = self.engine.facts["runtime"]
        for name in attrs.fields_dict(TokenBatch):
            if name not in READ and getattr(batch, name) is not None:
                raise RunError(
                    f"the batch has `{name}`, which the runtime `{runtime}` does not read; encode on `cpu`, or "
                    "with a plain prompt"
                )

    def _require_projected(self, projected: Any, rows: int) -> None:
        expected = rows, self.module.untransformed_width
        shape = getattr(projected, "shape", None)
        dtype = getattr(projected, "dtype", None)
        if shape != expected or dtype != np.float32:
            wrong = f"returned a function that returned {dtype} {shape}, expected float32 {expected}"
            raise fault(type(self.engine), "compiled", wrong)

    def _origin_of_nan(self, batch: TokenBatch) -> str:
        """Return which part gives NaN or infinity in PyTorch; "" if none does."""
        self.module.eval()
        tensors, keywords = host_arguments(batch)
        return origin_of_nan(self.module, self.module.backbone, tensors, keywords)

    def fingerprint(self) -> str | None:
        """Return a hash of weights, code, the engine's facts and the protocol."""
        processor = {}
        for name, value in torch.cpu.get_capabilities().items():
            processor[name] = str(value)

        facts, protocol = dict(self.engine.describe()), dict(self.protocol)
        return self.module.fingerprint([facts, protocol, processor])

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> EncodingEncoder:
        """Return an encoder with the fitted transform, or one of its inputs; both share their weights."""
        return self._of(self.module.transformed(fit, on))
