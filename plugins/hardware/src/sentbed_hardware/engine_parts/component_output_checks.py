"""Checks of what components return in encoding and training; errors name the component at fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeAlias

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
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.module_fingerprint import weights_of
from sentbed_hardware.engine_parts.encoder_module import EncoderModule

Vectors: TypeAlias = "NDArray[np.float32]"
"""Vectors on the host, `(batch, width)`."""


def learning_rate(training: Training, step: int) -> float:
    """Return the learning rate of a step, counted from 0. Raises `PluginError` for a wrong multiplier."""
    schedule, optimizer = training.schedule, training.optimizer
    returned_factor = schedule.factor(step, training.total_steps)
    factor = number(returned_factor, schedule, "factor")
    if not 0 <= factor < math.inf:
        wrong = f"returned {returned_factor!r} for step {step}, expected a number from 0 to 1"
        raise fault(schedule, "factor", wrong)

    return number(optimizer.lr, optimizer, "lr") * factor


def broken_weight(module: nn.Module) -> str | None:
    """Return the name of a module's first weight that is NaN or infinite, or None if there is none.

    Of sharded weights, this process's shard is checked.
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
    """Raise `NotFiniteError` if a weight is NaN or infinite.

    Vectors may be finite all the same: on CPUs, attention without a mask treats NaN scores as zero weights.
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
    """Return which part of an encoder first gives NaN or infinity for a batch; "" if none does.

    `tensors` and `keywords` are the arguments of the backbone's module.
    """
    cls, pooler = encoder.owners
    with torch.no_grad():
        states = encoder.in_fp32(backbone(*tensors, **keywords))
        pooled = tensor_of(encoder.pooler(states))
        projected = encoder.projection(pooled)
        of_backbone = f"the token states of {named_backbone(cls)}"
        of_pooler = f"the vectors of {_named('pooler', pooler)}"
        parts = (
            (of_backbone, backbone, _real(states)),
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
    """Return vectors as one tensor, `(vectors, width)`: of texts, or of all unmasked tokens."""
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
    """Return the vectors of a batch. Raises `NotFiniteError` with the part that gives NaN or infinity.

    `origin_of` returns that part for the first such row, as `origin_of_nan` does.
    """
    good = np.isfinite(vectors).all(axis=1)
    if good.all():
        return vectors

    origin = origin_of(batch.select(np.flatnonzero(~good)[:1]))
    remedy = "encode in fp32 (`precision`, `dtype`), or test the part with `sentbed_testing.check_component`"
    if origin.endswith("values"):
        remedy = "load other weights, or train with a lower learning rate"
    first = ""
    if origin:
        first = f", first in {origin}"
    raise NotFiniteError(f"the vectors have NaN or infinite values{first}; {remedy}")


def _real(states: TokenStates) -> Tensor:
    """Return the states that a pooler may read, without those of padding."""
    real: Tensor = states.last_hidden_state.flatten(0, 1)
    if states.attention_mask is not None:
        real = real[states.attention_mask.flatten().bool()]
    for state in (states.decoder_state, states.mask_state):
        if state is not None:
            real = torch.cat([real, state])

    return real


def require_recorded(states: TokenStates, trained: bool, backbone: type[Any]) -> None:
    """Raise `PluginError` if the states of a backbone with trained weights have no gradient."""
    if not trained:
        return

    tensors = [states.last_hidden_state, states.decoder_state, states.mask_state]
    tensors += states.layers or ()
    if not any(tensor is not None and tensor.requires_grad for tensor in tensors):
        wrong = "returned states without a gradient, and its weights are trained; do not detach them"
        raise fault(backbone, "module", wrong)


def cut(
    name: str, encoder: EncoderModule, reached: Mapping[str, bool]
) -> PluginError | None:
    """Return the error for a trained pooler or backbone that no gradient reaches, or None.

    `reached` says of each trained weight of the encoder `name` whether it has a gradient.
    """
    for part in ("pooler", "backbone"):
        of_part = []
        for key, is_reached in reached.items():
            if key.startswith(f"{part}."):
                of_part.append(is_reached)

        if of_part and not any(of_part):
            wrong = (
                f"built a module that lets no gradient reach the {part}'s weights in the encoder `{name}`; do "
                "not detach what it reads or returns"
            )
            return fault(encoder.owners[1], "build", wrong)

    return None


def frozen_nan(columns: Columns) -> bool:
    """Whether the vectors of a frozen encoder have NaN or infinite values."""
    frozen = [values for values in columns.values() if not isinstance(values, TokenIds)]
    return any(not np.isfinite(values).all() for values in frozen)


def came_from(origin: str) -> str:
    """Return the clause on the origin of NaN in a step, for messages."""
    return f"NaN or infinite values come from {origin}"


def named_loss(loss: Loss) -> str:
    """Return the name of a loss and its distribution, for messages."""
    return _named("loss", loss)


def named_backbone(cls: type[Any]) -> str:
    """Return the distribution of a backbone, given the class of the built one, for messages."""
    return f"the backbone of {release_of(cls.__module__)}"


def named_parts(encoder: EncoderModule) -> str:
    """Return the names of an encoder's pooler and backbone and their distributions, for messages."""
    cls, pooler = encoder.owners
    return f"{_named('pooler', pooler)} or of {named_backbone(cls)}"


def _named(kind: str, component: Any) -> str:
    return f"the {kind} `{component.name}` of {release_of(type(component).__module__)}"


def connected(
    encoder: EncoderModule, names: Collection[str], batch: TokenBatch
) -> dict[str, bool]:
    """Return whether the vectors of a batch depend on each of these weights of an encoder on the host."""
    weights = dict(encoder.named_parameters())
    chosen = [name for name in weights if name in names]
    tensors, keywords = host_arguments(batch)
    vectors = tensor_of(encoder(*tensors, **keywords))
    if not vectors.requires_grad:
        return dict.fromkeys(chosen, False)

    inputs = [weights[name] for name in chosen]
    gradients = torch.autograd.grad(vectors.sum(), inputs, allow_unused=True)
    reached = [gradient is not None for gradient in gradients]
    return dict(zip(chosen, reached, strict=True))


def require_output(output: object, loss: Loss, stateful: bool, recorded: bool) -> None:
    """Raise `PluginError` if the module of a loss has not returned what `Loss.build` promises.

    With `recorded`, the loss was computed under autograd and must have a gradient.
    """
    if not isinstance(output, LossOutput):
        wrong = f"returned a `{type(output).__name__}`, expected a `LossOutput`"
    elif not isinstance(output.loss, Tensor) or output.loss.ndim:
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
