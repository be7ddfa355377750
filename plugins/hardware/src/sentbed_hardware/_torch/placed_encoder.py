"""An encoder of the PyTorch engine, on its device or on one device of each process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentbed import RunError
from sentbed.protocols import (
    BuiltBackbone,
    Module,
    TokenBatch,
    TokenStates,
)
from sentbed_common import processor_capabilities
from torch import Tensor, nn

from sentbed_hardware._torch.placement import BatchSize, Placement, Say
from sentbed_hardware._torch.sharding import gather_weights, in_place
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    Vectors,
    require_finite,
    require_finite_weights,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder
from sentbed_hardware.engine_parts.process_group import Processes

AHEAD = 2
"""Number of batches that may wait for a GPU while the host prepares the next one."""


class TorchEncoder(ModuleEncoder):
    """An encoder whose backbone, pooler and head are on one device, or on one device of each process.

    All encoders of an engine share `batch_size`. `say` shows the user a message. With several processes, the
    first one calls a method, and the method sends the call to the others. `Processes.results` does this and
    returns the result of each process. `Processes.together` and the decorator `in_all_processes` do this and
    return the first process's result.
    """

    def __init__(
        self,
        placement: Placement,
        batch_size: BatchSize,
        processes: Processes,
        say: Say,
        backbone: BuiltBackbone,
        module: EncoderModule,
    ) -> None:
        super().__init__(backbone, module)
        self.placement = placement
        self.batch_size = batch_size
        self.processes = processes
        """The processes that have a copy or a shard of this encoder."""
        self.say = say
        # Core reads `shares_prefix` and `asynchronous` when it prepares batches. A sharded backbone cannot cache
        # the states of a prefix that texts share.
        self.shares_prefix = backbone.shares_prefix and not processes.sharded
        self.asynchronous = placement.device.type == "cuda" and processes.world == 1
        self._copied_backbone: Module | None = None
        """The backbone with a copy of the weights, in the engine's precision; None before the first batch, and
        after training."""

    def encode(self, batch: TokenBatch) -> Any:
        """Return sentence vectors `(batch, width)`, or the token vectors of each text.

        A batch that does not fit into memory is halved.
        """
        if self.module.output == "tokens":
            return self._encode_tokens(batch)
        if not self.processes.leads:
            return self._checked(self.vectors(batch).cpu().numpy())

        # This is the first of several processes: it sends the call to all, and gathers their shares. During the
        # call, `leads` is False, so when `_encode_share` calls `encode`, it takes the branch above.
        rows = len(batch.input_ids)
        vectors = np.empty((rows, self.width), np.float32)
        parts = self.processes.results(type(self)._encode_share, self, batch)
        for rank, part in enumerate(parts[:rows]):
            vectors[rank :: self.processes.world] = part

        return vectors

    def _encode_share(self, batch: TokenBatch) -> Any:
        """Return the vectors of the rows of a batch that this process encodes."""
        rows = len(batch.input_ids)
        # With sharded weights, all processes must compute. A process without a row encodes the first one too.
        first = self.processes.rank
        if first >= rows:
            first = 0
        return self.encode(batch.select(np.arange(first, rows, self.processes.world)))

    def encode_batches(self, batches: Iterable[TokenBatch]) -> Iterator[Any]:
        """Yield the result of `encode` for each batch, while a GPU computes the next ones."""
        if not self.asynchronous or self.module.output == "tokens":
            yield from map(self.encode, batches)
            return

        started: deque[tuple[Tensor, Any]] = deque()
        for batch in batches:
            started.append(self._start(batch))
            if len(started) > AHEAD:
                yield self._finish(*started.popleft())

        while started:
            yield self._finish(*started.popleft())

    def _start(self, batch: TokenBatch) -> tuple[Tensor, Any]:
        """Start to encode a batch; return a host tensor, and the CUDA event after which it has the vectors."""
        vectors = self.vectors(batch)
        if vectors.device.type != "cuda":
            return vectors, None

        # torch allocates pinned memory for such a copy, so that it is asynchronous.
        host = vectors.to("cpu", non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record(torch.cuda.current_stream(vectors.device))
        return host, copied

    def _finish(self, vectors: Tensor, copied: Any) -> Vectors:
        """Wait for the vectors of a started batch, check them and return them."""
        if copied is not None:
            copied.synchronize()
        return self._checked(vectors.numpy())

    def _encode_tokens(self, batch: TokenBatch) -> list[Vectors]:
        """Return the token vectors of each text."""
        texts = []
        for part in self._parts(batch):
            for vectors, mask in zip(part.vectors.cpu(), part.mask.cpu(), strict=True):
                texts.append(vectors[mask].numpy())

        self._checked(np.concatenate(texts))
        return texts

    def _checked(self, vectors: Vectors) -> Vectors:
        """Return the vectors of a batch; raises `NotFiniteError` if one of them has NaN or infinity."""
        return require_finite(vectors)

    def vectors(self, batch: TokenBatch) -> Tensor:
        """Return sentence vectors `(batch, width)` on the device, in fp32."""
        return torch.cat(self._parts(batch))

    def _parts(self, batch: TokenBatch) -> list[Any]:
        """Encode a batch in as many parts as the memory requires; return the output for each, in order."""
        rows = len(batch.input_ids)
        most = self.batch_size.most_tokens
        if rows == 1 or self.processes.sharded:
            with self.placement.fitting():
                return [self._forward(batch)]

        if most is None or batch.input_ids.size <= most:
            try:
                return [self._forward(batch)]
            except torch.OutOfMemoryError:
                # The error holds references to large tensors. They are freed only after this block.
                pass
            self._halve_batch_size(batch)

        middle = (rows + 1) // 2
        first_half = self._parts(batch.select(slice(middle)))
        return first_half + self._parts(batch.select(slice(middle, None)))

    def _halve_batch_size(self, batch: TokenBatch) -> None:
        """Let later batches have at most half of the tokens of a batch that did not fit, and say so."""
        torch.cuda.empty_cache()
        rows, length = batch.input_ids.shape
        most = (rows + 1) // 2 * length
        size = self.batch_size
        size.most_tokens = most
        size.token_budget = min(size.token_budget, most * self.processes.world)
        self.say(
            f"a batch of {rows * length:,} tokens did not fit into {self.placement.memory}; going on with "
            f"{most:,}"
        )

    def _forward(self, batch: TokenBatch) -> Any:
        """Return the output of the encoder for a batch."""
        tensors, keywords = self.placement.arguments(batch)
        if self.processes.sharded:
            # In inference mode, FSDP would gather weights that later training cannot use.
            self.module.eval()
            with torch.no_grad():
                with self.placement.autocast():
                    states = self.module.backbone(*tensors, **keywords)
                return self._output(states)

        backbone = self.copied_backbone()
        with torch.inference_mode():
            return self._output(backbone(*tensors, **keywords))

    def _output(self, states: TokenStates) -> Any:
        """Return vectors of token states, `(batch, width)`, or the vectors of tokens."""
        if self.module.training:
            self.module.eval()
        return self.module.finish(states, cut=True)

    def copied_backbone(self) -> Module:
        """Return the backbone for encoding, with a copy of the weights in the engine's precision."""
        if self._copied_backbone is None:
            require_finite_weights(self.module)
            with self.placement.fitting():
                self._copied_backbone = self.backbone.inference(
                    self.module.backbone, self.placement.dtype
                )

        return self._copied_backbone

    def weights_changed(self) -> None:
        """Drop the copy of the weights, since the weights have changed."""
        self._copied_backbone = None

    def fingerprint(self) -> str | None:
        """Return a hash of all weights, and of the settings with which vectors are computed.

        Returns None if the weights are sharded over processes.
        """
        if self.processes.sharded:
            return None

        placement = self.placement
        settings = [
            str(placement.dtype),
            placement.device.type,
            torch.get_float32_matmul_precision(),
        ]
        # Vectors depend on the processor and the GPU, and machines of different kinds may share a cache of
        # vectors.
        if placement.device.type == "cuda":
            settings.append(torch.cuda.get_device_name(placement.device))
        for name, value in sorted(processor_capabilities().items()):
            settings.append(f"{name} {value}")

        return self.module.fingerprint(settings)

    def beside(self, others: Sequence[Any]) -> TorchEncoder | None:
        """Return an encoder whose vectors are those of this encoder and of `others`, concatenated.

        It computes the backbone once for all. Returns None if the encoders differ in backbone or engine, if one
        of them gives token vectors, or if there are several processes.
        """
        if self.processes.world > 1:
            return None

        for other in (self, *others):
            if not isinstance(other, TorchEncoder):
                return None
            if other.placement is not self.placement:
                return None
            if other.module.backbone is not self.module.backbone:
                return None
            if other.module.output == "tokens":
                return None

        return SeveralEncoders((self, *others))

    def save(self, directory: Path) -> None:
        """Write the encoder's weights into `directory`; see `ModuleEncoder.save`."""
        if not self.processes.sharded:
            super().save(directory)
            return

        weights = self.processes.together(type(self)._gather_weights, self)
        with in_place(self.module, weights):
            super().save(directory)

    def _gather_weights(self) -> dict[int, nn.Parameter]:
        """Return the sharded weights, gathered on the host of the first process; see `gather_weights` of
        `sharding`."""
        return gather_weights(self.module, self.processes)

    @in_all_processes
    def transformed(
        self, fit: Any = None, on: Mapping[str, Any] | None = None
    ) -> TorchEncoder:
        """Return an encoder with the fitted transform `fit`, which shares its weights with this encoder.

        If `fit` is None, the encoder has no transform: its vectors are those to which one can be fitted. `on`
        describes the texts of the fit; it is saved with the encoder.
        """
        module = self.module.transformed(fit, on)
        module.transform.to(self.placement.device)
        return self._of(module)


class SeveralEncoders(TorchEncoder):
    """Encoders with the same backbone, as one encoder whose vectors are theirs, concatenated."""

    def __init__(self, encoders: Sequence[TorchEncoder]) -> None:
        first = encoders[0]
        super().__init__(
            first.placement,
            first.batch_size,
            first.processes,
            first.say,
            first.backbone,
            first.module,
        )
        self.encoders = encoders
        self.width = sum(encoder.width for encoder in encoders)

    def copied_backbone(self) -> Module:
        """Return the first encoder's copy of the backbone, which the others then have too."""
        backbone = self.encoders[0].copied_backbone()
        for encoder in self.encoders:
            encoder._copied_backbone = backbone

        return backbone

    def _checked(self, vectors: Vectors) -> Vectors:
        """Return the vectors without a check, since NaN in one encoder must not stop the others."""
        return vectors

    def _halve_batch_size(self, batch: TokenBatch) -> None:
        """Raise `RunError`, so that the caller encodes with one encoder at a time.

        That may fit without halving, and halving changes the last bits of vectors.
        """
        raise RunError(
            f"a batch of {batch.input_ids.size:,} tokens does not fit into {self.placement.memory} for "
            f"{len(self.encoders)} encoders at once; encode with one at a time"
        )

    def _output(self, states: TokenStates) -> Tensor:
        """Return the vectors of each encoder, side by side."""
        vectors = [encoder._output(states) for encoder in self.encoders]
        return torch.cat(vectors, -1)
