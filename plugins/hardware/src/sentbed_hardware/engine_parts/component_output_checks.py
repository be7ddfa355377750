"""Checks of what components return inside an encoder or a training step; a fault names its component."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import PluginError
from sentbed.errors import NotFiniteError
from sentbed.helpers import fault, number, release_of
from sentbed.protocols import (
    Columns,
    Loss,
    LossOutput,
    Module,
    TokenBatch,
    TokenIds,
    TokenStates,
    TokenVectors,
    Training,
)
from sentbed_common import is_finite_tensor
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.module_fingerprint import weights_of
from sentbed_hardware.engine_parts.encoder_module import EncoderModule


def learning_rate(training: Training, step: int) -> float:
    """Return the learning rate of a step, from 0. Raises `PluginError` if the schedule gives none."""
    schedule = training.schedule
    returned_factor = schedule.factor(step, training.total_steps)
    factor = number(returned_factor, schedule, "factor")
    if not 0 <= factor < float("inf"):
        wrong = f"returned {returned_factor!r} for step {step}, expected a number from 0 to 1"
        raise fault(schedule, "factor", wrong)
    return number(training.optimizer.lr, training.optimizer, "lr") * factor


def broken_weight(module: torch.nn.Module) -> str | None:
    """Return the name of a module's first weight that is NaN or infinite, or None if there is none.

    In processes that share weights, each looks at its own part of them.
    """
    for name, weight in weights_of(module):
        part = weight
        if isinstance(weight, DTensor):
            part = weight.to_local()
        if part.is_floating_point() and not part.is_meta and not is_finite_tensor(part):
            return name
    return None


def require_finite_weights(module: torch.nn.Module) -> None:
    """Raise `NotFiniteError` if a weight is NaN or infinite.

    Vectors need not show it: on a processor, attention without a mask takes NaN among queries and keys for
    no weight at all, and gives finite vectors.
    """
    if (name := broken_weight(module)) is not None:
        raise NotFiniteError(
            f"the weights of the encoder have NaN or infinite values, first in `{name}`; load other weights, "
            "or train with a lower learning rate"
        )


def origin_of_nan(
    encoder: EncoderModule,
    backbone: Module,
    tensors: Iterable[torch.Tensor | None],
    keywords: Mapping[str, Any],
) -> str:
    """Return which part of an encoder first gives NaN or infinity for a batch; "" if none does.

    `tensors` and `keywords` are the arguments of the backbone's module.
    """
    cls, pooler = encoder.owners
    with torch.no_grad():
        states = encoder.in_fp32(backbone(*tensors, **keywords))
        parts: list[tuple[str, Module, torch.Tensor]] = [
            (
                f"the token states of the backbone of {release_of(cls.__module__)}",
                backbone,
                _real(states),
            )
        ]
        of = f"the vectors of the pooler `{pooler.name}` of {release_of(type(pooler).__module__)}"
        pooled = tensor_of(encoder.pooler(states))
        parts.append((of, encoder.pooler, pooled))
        parts.append(
            (
                "the projection of the head",
                encoder.projection,
                encoder.projection(pooled),
            )
        )
        for what, module, values in parts:
            if not torch.isfinite(values).all():
                spoilt = any(
                    not torch.isfinite(p).all()
                    for p in module.parameters()
                    if p.is_floating_point()
                )
                return (
                    f"{what}, whose weights have NaN or infinite values"
                    if spoilt
                    else what
                )
    return ""


def tensor_of(vectors: torch.Tensor | TokenVectors) -> torch.Tensor:
    """Return the vectors that an encoder or a pooler gives: of texts, or of the tokens that count."""
    if not isinstance(vectors, TokenVectors):
        return vectors
    counting: torch.Tensor = vectors.vectors[vectors.mask]
    return counting


def host_arguments(
    batch: TokenBatch,
) -> tuple[tuple[torch.Tensor, torch.Tensor | None], dict[str, torch.Tensor]]:
    """Return ids, mask and keywords of a batch for a module on the host."""
    mask = None
    if batch.attention_mask is not None:
        mask = torch.from_numpy(batch.attention_mask)
    keywords = {
        name: torch.from_numpy(values) for name, values in batch.keywords.items()
    }
    return (torch.from_numpy(batch.input_ids), mask), keywords


def require_finite(
    vectors: NDArray[np.float32],
    batch: TokenBatch,
    origin_of: Callable[[TokenBatch], str],
) -> NDArray[np.float32]:
    """Return the vectors of a batch. Raises `NotFiniteError` with the part that gives NaN or infinity.

    `origin_of` returns that part for the first such row, as `origin_of_nan` does.
    """
    good = np.isfinite(vectors).all(axis=1)
    if good.all():
        return vectors
    bad = np.flatnonzero(~good)[:1]
    origin = origin_of(batch.select(bad))
    remedy = "encode in fp32 (`precision`, `dtype`), or test the part with `sentbed_testing.check_component`"
    if origin.endswith("values"):
        remedy = "load other weights, or train with a lower learning rate"
    first = f", first in {origin}" if origin else ""
    raise NotFiniteError(f"the vectors have NaN or infinite values{first}; {remedy}")


def _real(states: TokenStates) -> torch.Tensor:
    """Return the states that a pooler may read: those of padding may be anything."""
    hidden, mask = states.last_hidden_state, states.attention_mask
    tokens = hidden.flatten(0, 1) if mask is None else hidden[mask.bool()]
    more = (
        state
        for state in (states.decoder_state, states.mask_state)
        if state is not None
    )
    return torch.cat([tokens, *more])


def require_recorded(states: TokenStates, trained: bool, backbone: type[Any]) -> None:
    """Raise `PluginError` if a backbone with trained weights has cut its states from them."""
    tensors = (
        *states[:1],
        *(states.layers or ()),
        states.decoder_state,
        states.mask_state,
    )
    if trained and not any(
        tensor is not None and tensor.requires_grad for tensor in tensors
    ):
        wrong = "returned states without a gradient, and its weights are trained; do not detach them"
        raise fault(backbone, "module", wrong)


def cut(
    name: str, encoder: EncoderModule, reached: Mapping[str, bool]
) -> PluginError | None:
    """Return the error for a trained part that no gradient reaches, or None.

    `reached` has each trained weight of the encoder `name`, by its own name, and whether it has a gradient.
    """
    for part in ("pooler", "backbone"):
        of_part = [
            is_reached
            for key, is_reached in reached.items()
            if key.startswith(f"{part}.")
        ]
        if of_part and not any(of_part):
            wrong = f"built a module that lets no gradient reach the {part}'s weights in the encoder `{name}`"
            return fault(
                encoder.owners[1],
                "build",
                f"{wrong}; do not detach what it reads or returns",
            )
    return None


def frozen_nan(columns: Columns) -> bool:
    """Whether the vectors of a frozen encoder have NaN or infinite values."""
    frozen = [values for values in columns.values() if not isinstance(values, TokenIds)]
    return not all(np.isfinite(values).all() for values in frozen)


def came_from(origin: str) -> str:
    """Return the end of a sentence about a step whose loss or gradient is not finite."""
    return f"NaN or infinite values come from {origin}"


def named_loss(loss: Loss) -> str:
    """Return a loss with its distribution, for messages."""
    return f"the loss `{loss.name}` of {release_of(type(loss).__module__)}"


def named_parts(encoder: EncoderModule) -> str:
    """Return an encoder's pooler and backbone with their distributions, for messages."""
    cls, pooler = encoder.owners
    named = f"the pooler `{pooler.name}` of {release_of(type(pooler).__module__)}"
    return f"{named} or of the backbone of {release_of(cls.__module__)}"


def connected(
    encoder: EncoderModule, names: Collection[str], batch: TokenBatch
) -> dict[str, bool]:
    """Return for each weight of an encoder on the host whether a batch's vectors have a gradient for it."""
    weights = {
        name: value for name, value in encoder.named_parameters() if name in names
    }
    tensors, keywords = host_arguments(batch)
    vectors = tensor_of(encoder(*tensors, **keywords))
    if not vectors.requires_grad:
        return dict.fromkeys(weights, False)
    gradients = torch.autograd.grad(
        vectors.sum(), list(weights.values()), allow_unused=True
    )
    return {
        name: gradient is not None
        for name, gradient in zip(weights, gradients, strict=True)
    }


def require_output(output: object, loss: Loss, stateful: bool, recorded: bool) -> None:
    """Raise `PluginError` if the module of a loss has not returned what `Loss.build` promises.

    `recorded`: PyTorch has recorded the graph of the value, which must include a weight or a vector.
    """
    if not isinstance(output, LossOutput):
        wrong = f"returned a `{type(output).__name__}`, expected a `LossOutput`"
    elif not isinstance(output.loss, torch.Tensor) or output.loss.ndim:
        what = f"type {type(output.loss).__name__}"
        if hasattr(output.loss, "shape"):
            what = f"shape {tuple(output.loss.shape)}"
        wrong = f"returned a loss of the {what}, expected a scalar tensor"
    elif recorded and not output.loss.requires_grad:
        wrong = "returned a value without a gradient; do not detach it"
    elif stateful and output.state is None:
        wrong = "has a state and returned none; put it into its `LossOutput`"
    else:
        return
    raise fault(loss, "build", f"built a module that {wrong}")
