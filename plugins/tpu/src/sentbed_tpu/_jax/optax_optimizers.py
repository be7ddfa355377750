"""The optimisers of `sentbed-hardware` in optax."""

from __future__ import annotations

from collections.abc import Mapping

import optax
from sentbed import RunError
from sentbed.protocols import Optimizer
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW


def build_optax(
    optimizer: Optimizer, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation | None:
    """Return the update of an optimiser, as `Optimizer.build_optax` does; None for any other one.

    Raises:
        RunError: for Adafactor and a weight of more than two axes, of which optax would factor others.
    """
    if isinstance(optimizer, AdamW):
        return _adamw(optimizer, shapes)
    if isinstance(optimizer, Adafactor):
        return _adafactor(optimizer, shapes)

    return None


def _adamw(
    optimizer: AdamW, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
    matrices = {name: len(shape) >= 2 for name, shape in shapes.items()}
    return optax.chain(
        optax.scale_by_adam(optimizer.beta1, optimizer.beta2, optimizer.eps),
        optax.add_decayed_weights(optimizer.weight_decay, mask=matrices),
    )


def _adafactor(
    optimizer: Adafactor, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
    for name, shape in shapes.items():
        if len(shape) > 2:
            raise RunError(
                f"`{name}` has {len(shape)} axes, and Adafactor on JAX factors two; use `adamw`"
            )
    parts = [
        # By default optax factors only large matrices, transformers all of them.
        optax.scale_by_factored_rms(
            decay_rate=-optimizer.decay_rate, min_dim_size_to_factor=1
        ),
        optax.clip_by_block_rms(optimizer.clip_threshold),
        optax.add_decayed_weights(optimizer.weight_decay),
    ]
    if optimizer.scale_parameter:
        # transformers scales the decay as well.
        parts.append(optax.scale_by_param_block_rms())
    return optax.chain(*parts)
