"""The engine in PyTorch: places modules, encodes batches, takes training steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sentbed import ModelError, RunError
from sentbed.encode import pad, plan_batches
from sentbed.protocols import (
    BuiltBackbone,
    Head,
    Loss,
    Module,
    Optimizer,
    Pooler,
    Schedule,
    StepResult,
    Tensor,
    TokenBatch,
    TokenIds,
)

from sentbed_hardware._torch.encoder import EncoderModule

MODULES_FILE = "modules.safetensors"
"""Weights of pooler and head, beside the backbone's directory."""
BACKBONE_DIRECTORY = "backbone"
LENGTH_BUCKET, ROWS_BUCKET = 16, 8
"""Compiled encoding sees lengths that are multiples of the first, and rows the second times a power of 2."""
NO_LIMIT = 2**31
"""A training batch is split by length only: the gradient needs all of it at once."""


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

    def trainer(
        self,
        encoder: TorchEncoder,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule,
        total_steps: int,
        max_grad_norm: float,
    ) -> TorchTrainer:
        """Prepare training of `encoder`."""
        return TorchTrainer(self, encoder, loss, optimizer, schedule, total_steps, max_grad_norm)

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

    def weights_changed(self) -> None:
        """Drop the copy of the weights that encoding uses."""
        self._replica = None

    def save(self, directory: Path) -> None:
        """Write the backbone in its own layout, and the weights of pooler and head beside it."""
        self.backbone.save(directory / BACKBONE_DIRECTORY)
        try:
            save_file(self.module.own_weights(), directory / MODULES_FILE)
        except SafetensorError as error:
            # It wraps what the system said: a full disk is to be told from a fault of ours.
            raise OSError(str(error)) from error


class TorchTrainer:
    """One stage's optimiser over one encoder."""

    def __init__(
        self,
        engine: TorchEngine,
        encoder: TorchEncoder,
        loss: Loss,
        optimizer: Optimizer,
        schedule: Schedule,
        total_steps: int,
        max_grad_norm: float,
    ) -> None:
        self.engine = engine
        self.encoder = encoder
        self.loss = loss.build(encoder.width).to(engine.device)
        self.schedule = schedule
        self.total_steps = total_steps
        self.max_grad_norm = max_grad_norm if max_grad_norm > 0 else float("inf")
        self.parameters = [
            (name, parameter)
            for part, prefix in ((encoder.module, "encoder."), (self.loss, "loss."))
            for name, parameter in ((prefix + name, p) for name, p in part.named_parameters())
            if parameter.requires_grad
        ]
        if not self.parameters:
            raise RunError(
                "nothing in this encoder can be trained: everything is frozen or quantised; "
                "freeze less, add `lora = {}` to its backbone, or a `projection` to its head"
            )
        for name, parameter in self.parameters:
            if parameter.dtype != torch.float32:
                raise RunError(
                    f"`{name}` is held in {parameter.dtype}, in which small updates are lost; train with "
                    '`dtype = "fp32"` (and `precision = "bf16"` of the runtime for speed), or add `lora = {}`'
                )
        held = {p.dtype for p in encoder.module.backbone.parameters() if p.is_floating_point()}
        if torch.float16 in held and engine.dtype == torch.bfloat16:
            raise RunError(
                "weights that are held in fp16 cannot be trained in bf16; "
                'set `dtype = "bf16"` for the backbone, or `precision = "fp32"` for the runtime'
            )
        self.peak_rate = optimizer.lr
        self.optimizer = optimizer.build(self.parameters)
        backbone = encoder.module.backbone
        self.backbone = torch.compile(backbone, dynamic=True) if engine.compile else backbone
        self.steps = 0

    def step(self, columns: Mapping[str, TokenIds]) -> StepResult:
        """Encode all columns, then loss, gradient and update."""
        rate = self.peak_rate * self.schedule.factor(self.steps, self.total_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.encoder.module.train()
        self.loss.train()
        vectors = torch.split(
            self.vectors(TokenIds.join(columns.values())), [len(c) for c in columns.values()]
        )
        # Similarities decide between near neighbours: the loss is computed in fp32, outside autocast.
        output = self.loss(dict(zip(columns, vectors, strict=True)))
        output.loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in self.parameters], self.max_grad_norm)
        # A step that is not finite would leave nothing to save; the caller sees the numbers and stops.
        if torch.isfinite(norm) and torch.isfinite(output.loss):
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.encoder.weights_changed()
        self.steps += 1
        metrics = {name: float(value) for name, value in output.metrics.items()}
        return StepResult(output.loss.item(), rate, float(norm), metrics)

    def vectors(self, tokens: TokenIds) -> torch.Tensor:
        """Encode with gradient; returns fp32 `(n, width)`.

        Texts of like length share a forward pass: in one pass for all, half of the batch would be padding.
        """
        order, parts = [], []
        for rows in plan_batches(tokens.lengths, token_budget=NO_LIMIT):
            batch = self.engine.tensors(pad(tokens, rows, self.encoder.backbone.tokenizer.pad_id))
            with torch.autocast(self.engine.device.type, torch.bfloat16, self.engine.dtype == torch.bfloat16):
                states = self.backbone(*batch)
            parts.append(self.encoder.module.finish(states))
            order.append(rows)
        place = torch.from_numpy(np.argsort(np.concatenate(order))).to(self.engine.device)
        return torch.cat(parts)[place]


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
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(f"`{path}` cannot be read: {error}; save this encoder again") from error
    found, expected = _shapes(weights), _shapes(module.own_weights())
    if found != expected:
        raise ModelError(
            f"`{path}` holds {found}, the pooler and head of its recipe have {expected}; "
            "the files of this encoder do not belong together, save it again"
        )
    module.load_state_dict(weights, strict=False)


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(weights[name].shape) for name in sorted(weights)}
