"""Checks of values that components return in encoding and training. Error messages name the component."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed.errors import NotFiniteError
from sentbed.helpers import full_name, release_of
from sentbed.protocols import (
    Columns,
    Loss,
    Module,
    TokenBatch,
    TokenIds,
    TokenStates,
    TokenVectors,
    Training,
)
from sentbed_common import is_finite_tensor
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.module_fingerprint import weights_of
from sentbed_hardware.engine_parts.encoder_module import EncoderModule

Vectors: TypeAlias = "NDArray[np.float32]"
"""Vectors on the host, `(batch, width)`."""


def learning_rate(training: Training, step: int) -> float:
    """Return the learning rate of a step. Steps are counted from 0."""
    factor = training.schedule.factor(step, training.total_steps)
    return training.optimizer.lr * factor


def broken_weight(module: nn.Module) -> str | None:
    """Return the name of a module's first weight with NaN or infinity, or None if there is none.

    If weights are sharded, only the shards of this process are checked.
    """
    for name, weight in weights_of(module):
        part = weight
        if isinstance(weight, DTensor):
            part = weight.to_local()
        has_numbers = part.is_floating_point() and not part.is_meta
        if has_numbers and not is_finite_tensor(part):
            return name

    return None


def require_finite_weights(module: nn.Module) -> None:
    """Raise `NotFiniteError` if a weight has NaN or infinity.

    A check of the vectors does not suffice: attention without a mask on CPUs treats NaN scores as zero weights.
    """
    name = broken_weight(module)
    if name is not None:
        raise NotFiniteError(
            f"the weights of the encoder have NaN or infinite values, first in `{name}`; load other weights, "
            "or train with a lower learning rate"
        )


def origin_of_nan(
    encoder: EncoderModule,
    backbone: Module,
    tensors: Iterable[Tensor | None],
    keywords: Mapping[str, Any],
) -> str:
    """Return the first part of an encoder that gives NaN or infinity for a batch; "" if none does.

    The part is a noun phrase for messages. `tensors` and `keywords` are the batch, as arguments of the
    backbone's module.
    """
    cls, pooler = encoder.owners
    with torch.no_grad():
        states = encoder.in_fp32(backbone(*tensors, **keywords))
        pooled = tensor_of(encoder.pooler(states))
        projected = encoder.projection(pooled)
        of_backbone = f"the token states of {named_backbone(cls)}"
        of_pooler = f"the vectors of {full_name(pooler)}"
        parts = (
            (of_backbone, backbone, _unpadded_states(states)),
            (of_pooler, encoder.pooler, pooled),
            ("the projection of the head", encoder.projection, projected),
        )

    for what, module, values in parts:
        if not is_finite_tensor(values):
            if broken_weight(module) is not None:
                return f"{what}, whose weights have NaN or infinite values"
            return what

    return ""


def tensor_of(vectors: Tensor | TokenVectors) -> Tensor:
    """Return sentence vectors as they are, and token vectors as one tensor `(unmasked tokens, width)`."""
    if not isinstance(vectors, TokenVectors):
        return vectors

    unmasked: Tensor = vectors.vectors[vectors.mask]
    return unmasked


def host_arguments(
    batch: TokenBatch,
) -> tuple[tuple[Tensor, Tensor | None], dict[str, Tensor]]:
    """Return ids, mask and keywords of a batch as tensors on the host."""
    mask = None
    if batch.attention_mask is not None:
        mask = torch.from_numpy(batch.attention_mask)
    keywords = {}
    for name, values in batch.keywords.items():
        keywords[name] = torch.from_numpy(values)

    return (torch.from_numpy(batch.input_ids), mask), keywords


def require_finite(
    vectors: Vectors,
    batch: TokenBatch,
    origin_of: Callable[[TokenBatch], str],
) -> Vectors:
    """Return the vectors of a batch if they are finite.

    Raises:
        NotFiniteError: if a vector has NaN or infinity. The message names the part that gives it first, which
            the function `origin_of` returns for a batch; see `origin_of_nan`.
    """
    is_finite = np.isfinite(vectors).all(axis=1)
    if is_finite.all():
        return vectors

    first_row = np.flatnonzero(~is_finite)[:1]
    origin = origin_of(batch.select(first_row))
    remedy = (
        "encode in fp32 (`precision`, `dtype`), or test the part with `sentbed_testing`"
    )
    if origin.endswith("values"):
        remedy = "load other weights, or train with a lower learning rate"
    first = ""
    if origin:
        first = f", first in {origin}"
    raise NotFiniteError(f"the vectors have NaN or infinite values{first}; {remedy}")


def _unpadded_states(states: TokenStates) -> Tensor:
    """Return all states that a pooler may read, `(states, width)`. States of padding are left out."""
    unpadded: Tensor = states.last_hidden_state.flatten(0, 1)
    if states.attention_mask is not None:
        unpadded = unpadded[states.attention_mask.flatten().bool()]
    for state in (states.decoder_state, states.mask_state):
        if state is not None:
            unpadded = torch.cat([unpadded, state])

    return unpadded


def origin_outside_encoders(columns: Columns, loss: Loss, value: float) -> str:
    """Return which part gave the first NaN or infinity of a step, if no trained encoder did.

    `loss` is the component of the loss, `value` the loss of the step.
    """
    for values in columns.values():
        if not isinstance(values, TokenIds) and not np.isfinite(values).all():
            return came_from("a frozen encoder")

    if not math.isfinite(value):
        return came_from(f"{full_name(loss)}: the vectors that it got have none")

    return came_from("a gradient")


def came_from(origin: str) -> str:
    """Return the clause of a message that NaN or infinity in a step came from `origin`, a noun phrase."""
    return f"NaN or infinite values come from {origin}"


def named_backbone(cls: type[Any]) -> str:
    """Return a noun phrase for messages with the distribution of the backbone whose built form has the class
    `cls`."""
    return f"the backbone of {release_of(cls.__module__)}"
