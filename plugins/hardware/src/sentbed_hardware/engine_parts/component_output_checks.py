"""Checks that weights and vectors are finite."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sentbed.errors import NotFiniteError
from sentbed.protocols import TokenVectors, Training
from sentbed_common import is_finite_tensor
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from sentbed_hardware._common.module_fingerprint import weights_of

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


def tensor_of(vectors: Tensor | TokenVectors) -> Tensor:
    """Return sentence vectors as they are, and token vectors as one tensor `(unmasked tokens, width)`."""
    if not isinstance(vectors, TokenVectors):
        return vectors

    unmasked: Tensor = vectors.vectors[vectors.mask]
    return unmasked


def require_finite(vectors: Vectors) -> Vectors:
    """Return the vectors of a batch; raises `NotFiniteError` if one of them has NaN or infinity."""
    if not np.isfinite(vectors).all():
        raise NotFiniteError(
            "the vectors have NaN or infinite values; encode in fp32 (`precision`, `dtype`), or test the "
            "components with `sentbed_testing`"
        )

    return vectors
