"""The base class of engines that encode with another library than PyTorch, and do not train.

A subclass compiles an encoder's torch module into a function of the library. Everything else is as on the runtime
`cpu`: how modules are built, their widths and files, fitted transforms, and the choice of dimensions.
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
from sentbed.protocols import BuiltBackbone, Engine, Head, Pooler, TokenBatch
from sentbed_common import processor_capabilities
from torch import nn

from sentbed_hardware.engine_parts.component_output_checks import (
    Vectors,
    require_finite,
    require_finite_weights,
)
from sentbed_hardware.engine_parts.cpu_defaults import TOKEN_BUDGET
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, assembled
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder

Project: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64]], Vectors]
"""A function from token ids and mask, each `(batch, length)`, to vectors after the projection of the head,
`(batch, EncoderModule.untransformed_width)`. The transform, the choice of dimensions and the normalisation come
later."""

LEAST_NORM = 1e-12
"""Smallest divisor when normalising, as in `torch.nn.functional.normalize`."""


class EncodingEngine(Engine):
    """An engine that encodes with another library, on the host's processor.

    `describe` returns `facts`: `runtime`, `precision`, the version of the library, the number of threads.
    `streams` is the number of batches that are encoded at a time.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        streams: int = 1,
    ) -> None:
        self.facts = facts
        self.streams = streams
        self.token_budget = TOKEN_BUDGET
        self.compile_seconds = 0.0

    def compiled(self, backbone: BuiltBackbone, module: EncoderModule) -> Project:
        """Compile an encoder with its current weights, and return the compiled function.

        `traceable(module, backbone)` of `encoder_module` is the torch module to trace or export. This method is
        called before the first batch, and again if the weights have changed since.

        Raises:
            ModelError: if the library does not support a part of the encoder; with a remedy.
        """
        raise NotImplementedError

    def protocol_of(self, encoder: EncodingEncoder) -> Mapping[str, Any]:
        """Return `PlacedEncoder.protocol` of an encoder; this method may compile it by `encoder.project()`."""
        return {}

    def describe(self) -> Mapping[str, Any]:
        """Return facts about the engine: runtime, precision, version of the library, threads."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the seconds that compilation took."""
        return {"compile_seconds": self.compile_seconds}

    def seed(self, seed: int) -> None:
        """Seed PyTorch's random generators, which initialise weights."""
        torch.manual_seed(seed)

    def assemble(
        self,
        backbone: BuiltBackbone,
        pooler: Pooler,
        head: Head,
        saved: Path | None = None,
    ) -> EncodingEncoder:
        """Build pooler and head, and return the encoder. It is compiled before its first batch."""
        module = assembled(backbone, pooler, head, saved)
        return EncodingEncoder(self, backbone, module)


@attrs.define(eq=False)
class _Compilation:
    """The place of the compiled function, which encoders with the same weights share."""

    project: Project | None = None
    """The compiled function; None before compilation."""


class EncodingEncoder(ModuleEncoder):
    """An encoder for which another library computes backbone, pooler and projection."""

    def __init__(
        self,
        engine: EncodingEngine,
        backbone: BuiltBackbone,
        module: EncoderModule,
    ) -> None:
        super().__init__(backbone, module)
        self.engine = engine
        self.compilation = _Compilation()

    @property
    def protocol(self) -> Mapping[str, Any]:
        """What the engine states about how vectors are computed."""
        return self.engine.protocol_of(self)

    def project(self) -> Project:
        """Return the compiled function, after compiling it if necessary."""
        compilation = self.compilation
        if compilation.project is None:
            require_finite_weights(self.module)
            start = time.perf_counter()
            compilation.project = self.engine.compiled(self.backbone, self.module)
            self.engine.compile_seconds += time.perf_counter() - start

        return compilation.project

    def weights_changed(self) -> None:
        """Drop the compiled function, since the weights have changed."""
        self.compilation.project = None

    def encode(self, batch: TokenBatch) -> Vectors:
        """Return sentence vectors `(batch, width)`.

        Raises:
            RunError: if the batch has fields besides ids and mask, since the compiled function ignores them.
            NotFiniteError: if a vector has NaN or infinity.
        """
        self._require_plain(batch)
        mask = batch.attention_mask
        if mask is None:
            mask = np.ones_like(batch.input_ids)
        projected = self.project()(batch.input_ids, mask)
        vectors = self._apply_head(projected)
        return require_finite(vectors)

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Vectors]:
        """Yield the vectors of each batch, in order. Each stream of the engine is a thread."""
        streams = self.engine.streams
        if streams == 1:
            yield from map(self.encode, batches)
            return

        started: deque[Future[Vectors]] = deque()
        pool = ThreadPoolExecutor(streams, "encode")
        try:
            for batch in batches:
                # This thread compiles, so that the threads of the pool do not all compile.
                self.project()
                started.append(pool.submit(self.encode, batch))
                if len(started) > streams:
                    yield started.popleft().result()

            while started:
                yield started.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _apply_head(self, projected: Vectors) -> Vectors:
        """Transform, cut and normalise projected vectors as `EncoderModule.finish` does.

        This uses NumPy, not PyTorch. An evaluator counts PyTorch's operations, and does not see those of the
        library. If PyTorch computed this small part, the evaluator's count would look like that of all
        operations.
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
        """Raise `RunError` if a batch has fields that the compiled function ignores."""
        unread = list(batch.keywords)
        if batch.prefix is not None:
            unread.append("prefix")
        if batch.auxiliary is not None:
            unread.append("auxiliary")
        if unread:
            runtime = self.engine.facts["runtime"]
            raise RunError(
                f"the batch has `{unread[0]}`, which the runtime `{runtime}` does not read; encode on `cpu`, or "
                "with a plain prompt"
            )

    def fingerprint(self) -> str | None:
        """Return a hash of weights, processor, the engine's facts and the protocol."""
        processor = {}
        for name, value in processor_capabilities().items():
            processor[name] = str(value)

        facts, protocol = dict(self.engine.describe()), dict(self.protocol)
        return self.module.fingerprint([facts, protocol, processor])

    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> EncodingEncoder:
        """Return an encoder with the fitted transform `fit`, which shares its weights with this encoder.

        If `fit` is None, the encoder has no transform: its vectors are those to which one can be fitted. `on`
        describes the texts of the fit; it is saved with the encoder.
        """
        return self._of(self.module.transformed(fit, on))
