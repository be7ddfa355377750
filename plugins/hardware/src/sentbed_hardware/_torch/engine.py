"""The engine in PyTorch: places modules, encodes batches, takes training steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed.protocols import BuiltBackbone, Head, Module, Pooler, Tensor, TokenBatch, Training

from sentbed_hardware._torch.encoder import EncoderModule
from sentbed_hardware._torch.files import read_tensors, write_tensors
from sentbed_hardware._torch.fingerprint import fingerprint
from sentbed_hardware._torch.trainer import TorchTrainer

MODULES_FILE = "modules.safetensors"
"""Weights of pooler and head, beside the backbone's directory."""
BACKBONE_DIRECTORY = "backbone"
LENGTH_BUCKET, ROWS_BUCKET = 16, 8
"""Compiled encoding sees lengths that are multiples of the first, and rows the second times a power of 2."""


class TorchEngine:
    """One device in this process. `facts` is what `describe` returns."""

    def __init__(
        self, device: torch.device, dtype: torch.dtype, compile: bool, facts: Mapping[str, Any]
    ) -> None:
        self.device = device
        self.dtype = dtype
        self.compile = compile
        self.facts = facts
        # Above about 2,000 tokens a batch the products of matrices are as fast as they get on a processor,
        # and larger batches fall out of its cache.
        self.token_budget = 4096

    def describe(self) -> Mapping[str, Any]:
        """Return device, precision and threads as they are in force."""
        return self.facts

    def counters(self) -> Mapping[str, float]:
        """Return the most memory that was held on the device, where it has its own."""
        if self.device.type != "cuda":
            return {}
        return {"device_memory_gib": torch.cuda.max_memory_allocated(self.device) / 2**30}

    def seed(self, seed: int) -> None:
        """Seed initialisation and dropout."""
        torch.manual_seed(seed)

    def assemble(
        self, backbone: BuiltBackbone, pooler: Pooler, head: Head, saved: Path | None = None
    ) -> TorchEncoder:
        """Build pooler and head and put everything on the device."""
        module = EncoderModule(backbone.module, pooler.build(backbone.width), head, backbone.width)
        if saved is not None:
            _load_modules(module, saved / MODULES_FILE)
        if getattr(backbone, "dispatched", False):
            # The weights are spread over devices already; what comes after them is small.
            for part in (module.pooler, module.projection):
                part.to(self.device)
        else:
            module.to(self.device)
        return TorchEncoder(self, backbone, module)

    def trainer(self, encoders: Mapping[str, Any], training: Training) -> TorchTrainer:
        """Prepare training of the encoders that `training.towers` names."""
        return TorchTrainer(self, encoders, training)

    def tensors(self, batch: TokenBatch) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Put a batch on the device."""
        ids = torch.from_numpy(batch.input_ids).to(self.device)
        mask = batch.attention_mask
        return ids, None if mask is None else torch.from_numpy(mask).to(self.device)

    def prefix(self, batch: TokenBatch) -> tuple[torch.Tensor, ...]:
        """Put what the rows of a batch share on the device; nothing where they share nothing."""
        return () if batch.prefix is None else (torch.from_numpy(batch.prefix).to(self.device),)


class TorchEncoder:
    """Backbone, pooler and head on one device."""

    def __init__(self, engine: TorchEngine, backbone: BuiltBackbone, module: EncoderModule) -> None:
        self.engine = engine
        self.backbone = backbone
        self.module = module
        self.width = module.width
        # A compiler would stop at the cache of a prefix.
        self.shares_prefix = bool(getattr(backbone, "shares_prefix", False)) and not engine.compile
        self._replica: Module | None = None

    def encode(self, batch: TokenBatch) -> NDArray[np.float32]:
        """Return sentence vectors `(batch, width)`."""
        if self._replica is None:
            self._replica = self.module.inference(self.backbone, self.engine.dtype, self.engine.compile)
        rows = len(batch.input_ids)
        if self.engine.compile:
            batch = _bucketed(batch, self.backbone.tokenizer.pad_id, self.backbone.max_length)
        with torch.inference_mode():
            vectors = self._replica(*self.engine.tensors(batch), *self.engine.prefix(batch))[:rows]
        result: NDArray[np.float32] = vectors.to(torch.float32).cpu().numpy()
        return result

    def fingerprint(self) -> str | None:
        """Return a hash of all weights and of the code between tokens and vector.

        None where weights are out of reach, or where code has changed since it was loaded.
        """
        # What a compiler and the products of matrices do with the same weights.
        engine = self.engine
        how = [str(engine.dtype), engine.device.type, engine.compile, torch.get_float32_matmul_precision()]
        # A cache may be on a home that unlike machines share.
        how += sorted(f"{name} {value}" for name, value in torch.cpu.get_capabilities().items())
        return fingerprint(self.module, how)

    def weights_changed(self) -> None:
        """Drop the copy of the weights that encoding uses."""
        self._replica = None

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        self.backbone.save(directory / BACKBONE_DIRECTORY)
        write_tensors(self.module.own_weights(), directory / MODULES_FILE)


def _bucketed(batch: TokenBatch, pad_id: int, longest: int) -> TokenBatch:
    """Pad a batch to one of few shapes, always with a mask: every shape is compiled anew."""
    rows, length = batch.input_ids.shape
    more_rows = ROWS_BUCKET * 2 ** math.ceil(math.log2(max(1, rows / ROWS_BUCKET))) - rows
    more = ((0, more_rows), (0, min(-length % LENGTH_BUCKET, longest - length)))
    mask = np.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
    mask = np.pad(mask, more)
    # A row without any token has no mean and no attention: it is given one, and dropped.
    mask[rows:, 0] = 1
    return TokenBatch(np.pad(batch.input_ids, more, constant_values=pad_id), mask)


def _load_modules(module: EncoderModule, path: Path) -> None:
    weights = read_tensors(path, "save this encoder again")
    found, expected = _shapes(weights), _shapes(module.own_weights())
    if found != expected:
        raise ModelError(
            f"`{path}` holds {found}, the pooler and head of its recipe have {expected}; "
            "the files of this encoder do not belong together, save it again"
        )
    module.load_state_dict(weights, strict=False)


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights[name].shape) for name in sorted(weights)}
