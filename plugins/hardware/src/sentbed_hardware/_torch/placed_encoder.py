"""An encoder of the PyTorch engine, on its device or on one device of each process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import torch
from sentbed import RunError
from sentbed.protocols import (
    BuiltBackbone,
    Module,
    RaggedVectors,
    TokenBatch,
    TokenVectors,
)
from sentbed_common import processor_capabilities
from torch import Tensor, nn

from sentbed_hardware._common.module_fingerprint import Hashed
from sentbed_hardware._torch.placement import BatchSize, Placement, Say
from sentbed_hardware._torch.sharding import gather_weights, in_place
from sentbed_hardware.engine_parts.calls_in_all_processes import in_all_processes
from sentbed_hardware.engine_parts.component_output_checks import (
    Vectors,
    origin_of_nan,
    require_finite,
    require_finite_weights,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, InferenceModule
from sentbed_hardware.engine_parts.module_encoder import ModuleEncoder
from sentbed_hardware.engine_parts.process_group import Processes

LENGTH_BUCKET = 16
"""In compiled encoding, the length of a batch is padded to a multiple of this number."""
ROWS_BUCKET = 8
"""In compiled encoding, the rows of a batch are padded to this number times a power of 2."""


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
        # Core reads `shares_prefix` and `asynchronous` when it prepares batches. Neither a compiled nor a sharded
        # backbone can cache the states of a prefix that texts share.
        traced_or_sharded = placement.compile or processes.sharded
        self.shares_prefix = backbone.shares_prefix and not traced_or_sharded
        self._replica: Module | None = None
        """The module for encoding, with a copy of the weights. None before it is made, and after training."""
        if processes.world > 1:
            self.asynchronous = False

    def encode(self, batch: TokenBatch) -> Any:
        """Return sentence vectors `(batch, width)`, or the token vectors of each text.

        A batch that does not fit into memory is halved.
        """
        if self.module.output == "tokens":
            return self._encode_tokens(batch)
        if not self.processes.leads:
            return self.checked(self.vectors(batch).cpu().numpy(), batch)

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
        share = batch.select(np.arange(first, rows, self.processes.world))
        if self.processes.sharded:
            return self._encode_sharded(share)

        return self.encode(share)

    def _encode_sharded(self, batch: TokenBatch) -> Vectors:
        """Return the vectors of a batch, computed with the sharded weights, without a copy of them."""
        module = self.module.eval()
        placement = self.placement
        # An intervention may run a second prompt of each text (the auxiliary prompt) through the first blocks
        # only, and FSDP needs all blocks to be called.
        plain = attrs.evolve(batch, auxiliary=None)
        tensors, keywords = placement.arguments(plain)
        try:
            # In inference mode, FSDP would gather weights that later training cannot use.
            with torch.no_grad():
                with placement.autocast():
                    states = module.backbone(*tensors, **keywords)
                vectors: Vectors = module.finish(states, cut=True).cpu().numpy()
        except torch.OutOfMemoryError as error:
            tokens = batch.input_ids.size
            raise RunError(
                f"a batch of {tokens:,} tokens does not fit into {placement.memory} of a process; set "
                f"`token_budget = {max(1, tokens // 2)}` in the runtime"
            ) from error

        # The part that gives NaN is not searched for: all processes would have to take part in the search.
        return require_finite(vectors, batch, lambda _: "")

    def _encode_tokens(self, batch: TokenBatch) -> RaggedVectors:
        """Return the token vectors of each text."""
        texts = []
        for part in self._parts(batch):
            for vectors, mask in zip(part.vectors.cpu(), part.mask.cpu(), strict=True):
                texts.append(vectors[mask].numpy())

        tokens = RaggedVectors.of(texts, self.width)
        if not np.isfinite(tokens.rows).all():
            # The check takes one vector per text. A sum is not finite if one of the numbers is not.
            sums = np.array([text.sum() for text in texts])
            self.checked(sums[:, None], batch)

        return tokens

    def checked(self, vectors: Vectors, batch: TokenBatch) -> Vectors:
        """Return the vectors of a batch if they are finite.

        Raises:
            NotFiniteError: if a vector has NaN or infinity; the message names the part that gives it.
        """
        return require_finite(vectors, batch, self._origin_of_nan)

    def _origin_of_nan(self, batch: TokenBatch) -> str:
        """Return the first part that gives NaN or infinity for a batch; "" if none does."""
        tensors, keywords = self.placement.arguments(batch)
        return origin_of_nan(self.module, self.replica().backbone, tensors, keywords)

    def vectors(self, batch: TokenBatch) -> Tensor:
        """Return sentence vectors `(batch, width)` on the device, in fp32."""
        return torch.cat(self._parts(batch))

    def _parts(self, batch: TokenBatch) -> list[Any]:
        """Encode a batch in as many parts as the memory requires; return the output for each, in order."""
        rows = len(batch.input_ids)
        most = self.batch_size.most_tokens
        if most is None or rows == 1 or batch.input_ids.size <= most:
            try:
                return [self._forward(self.replica(), batch)]
            except torch.OutOfMemoryError:
                # The error holds references to large tensors. They are freed only after this block.
                pass
            self._halve_batch_size(batch)

        middle = (rows + 1) // 2
        first_half = self._parts(batch.select(slice(middle)))
        return first_half + self._parts(batch.select(slice(middle, None)))

    def replica(self) -> Module:
        """Return the module for encoding. It has a copy of the weights, in the engine's precision."""
        if self._replica is None:
            self._replica = self._build_replica()

        return self._replica

    def _halve_batch_size(self, batch: TokenBatch) -> None:
        """Limit batches to half of this one, because it did not fit into memory.

        Raises:
            RunError: if the batch has a single row.
        """
        rows, length = batch.input_ids.shape
        memory = self.placement.memory

        if rows == 1:
            raise RunError(
                f"a single text of {length} tokens does not fit into {memory} beside the weights; set a "
                'smaller `max_length`, encode in bf16 (`precision = "bf16"`), or free the device of other '
                "programs"
            )

        torch.cuda.empty_cache()
        size = self.batch_size
        most = (rows + 1) // 2 * length
        size.most_tokens = most
        size.token_budget = min(size.token_budget, most * self.processes.world)
        self.say(
            f"a batch of {rows * length:,} tokens did not fit into {memory}; going on with {most:,}"
        )

    def _build_replica(self) -> Module:
        """Build the module for encoding. Raises `RunError` if it does not fit into memory."""
        require_finite_weights(self.module)
        placement = self.placement
        try:
            return self.module.inference(
                self.backbone, placement.dtype, placement.compile
            )
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"encoding uses a copy of the weights, and it does not fit into {placement.memory} beside the "
                'weights; set `dtype = "bf16"` in the backbone, then no copy is made'
            ) from error

    def _forward(self, replica: Any, batch: TokenBatch) -> Any:
        """Return the output of the module for encoding, without the rows of padding."""
        rows = len(batch.input_ids)
        if self.placement.compile:
            pad_id = self.backbone.tokenizer.pad_id
            batch = _bucketed(batch, pad_id, self.backbone.max_length)

        with torch.inference_mode():
            tensors, keywords = self.placement.arguments(batch)
            vectors = replica(*tensors, **keywords)
            if isinstance(vectors, TokenVectors):
                return vectors
            return vectors[:rows].to(torch.float32)

    def fingerprint(self) -> str | None:
        """Return a hash of all weights, and of the settings with which vectors are computed.

        Returns None if the weights are sharded over processes.
        """
        if self.processes.sharded:
            return None

        return self._fingerprint({})

    def _fingerprint(self, hashed: Hashed) -> str | None:
        """Return the fingerprint; `hashed` caches the hashes of weights, see `module_fingerprint`."""
        placement = self.placement
        settings = [
            str(placement.dtype),
            placement.device.type,
            placement.compile,
            torch.get_float32_matmul_precision(),
        ]
        # Vectors depend on the processor and the GPU, and machines of different kinds may share a cache of
        # vectors.
        if placement.device.type == "cuda":
            settings.append(torch.cuda.get_device_name(placement.device))
        for name, value in sorted(processor_capabilities().items()):
            settings.append(f"{name} {value}")

        return self.module.fingerprint(settings, hashed)

    def beside(self, others: Sequence[Any]) -> TorchEncoder | None:
        """Return an encoder whose vectors are those of this encoder and of `others`, concatenated.

        It computes the backbone once for all. Returns None if the encoders differ in backbone or engine, if one
        of them gives token vectors, or if there are several processes. It also returns None if the backbone is
        compiled: a compiler may then add in another order, and the last bits of vectors would differ.
        """
        if self.placement.compile or self.processes.world > 1:
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
        other = self._of(module)
        other._replica = None
        if isinstance(self._replica, InferenceModule):
            other._replica = InferenceModule(module.eval(), self._replica.backbone)
        return other

    def weights_changed(self) -> None:
        """Drop the module for encoding, since the weights have changed."""
        self._replica = None


class SeveralEncoders(TorchEncoder):
    """Encoders with the same backbone, as one encoder whose vectors are theirs, concatenated.

    The backbone of the first encoder's replica computes the token states for all.
    """

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

    def replica(self) -> Module:
        """Return the first encoder's replica. Give the others replicas with the same copy of the backbone."""
        first = self.encoders[0].replica()
        for encoder in self.encoders:
            if encoder.module.training:
                encoder.module.eval()
            replica = encoder._replica
            if getattr(replica, "backbone", None) is not first.backbone:
                encoder._replica = InferenceModule(encoder.module, first.backbone)

        return first

    def checked(self, vectors: Vectors, batch: TokenBatch) -> Vectors:
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

    def _forward(self, replica: Any, batch: TokenBatch) -> Any:
        others = [encoder.module for encoder in self.encoders[1:]]
        return super()._forward(partial(replica, beside=others), batch)

    def fingerprints(self) -> list[str | None]:
        """Return the fingerprint of each encoder. The weights of the backbone are hashed only once."""
        hashed: Hashed = {}
        return [encoder._fingerprint(hashed) for encoder in self.encoders]


def _bucketed(
    batch: TokenBatch,
    pad_id: int,
    longest: int,
) -> TokenBatch:
    """Pad a batch to one of few shapes, and give it a mask, since each shape has to be compiled."""
    rows, length = batch.input_ids.shape
    doublings = math.ceil(math.log2(max(1, rows / ROWS_BUCKET)))
    rows_of_bucket = ROWS_BUCKET * 2**doublings
    length_of_bucket = length + min(-length % LENGTH_BUCKET, longest - length)
    # The second prompt of each text (the auxiliary prompt) has another length than the first. With it, each pair
    # of lengths would be a shape.
    plain = attrs.evolve(batch, auxiliary=None)
    return plain.widened(rows_of_bucket, length_of_bucket, pad_id)
