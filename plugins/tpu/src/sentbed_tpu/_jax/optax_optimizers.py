"""The optimisers `adamw` and `adafactor` of sentbed-hardware, as gradient transformations of optax."""

from __future__ import annotations

from collections.abc import Mapping

import optax
from sentbed import RunError
from sentbed.protocols import Optimizer
from sentbed_hardware.adafactor import Adafactor
from sentbed_hardware.adamw import AdamW


def optax_form(
    optimizer: Optimizer, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
    """Return an optimiser as a gradient transformation of optax. `shapes` are those of the parameters, by name.

    Raises:
        RunError: if the optimiser has no form in optax, or is Adafactor and a parameter has more than two axes.
            For these, optax and transformers factor different axes.
    """
    built = optimizer.build_optax(shapes)
    if built is not None:
        return built
    if isinstance(optimizer, AdamW):
        return _adamw(optimizer, shapes)
    if isinstance(optimizer, Adafactor):
        return _adafactor(optimizer, shapes)

    raise RunError(
        f"the optimizer `{optimizer.name}` has no form for JAX (`build_optax`), which the runtime `tpu` needs; "
        "use `adamw` or `adafactor`, or another runtime"
    )


def _adamw(
    optimizer: AdamW, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
    """Return AdamW, which decays only matrices."""
    matrices = {}
    for name, shape in shapes.items():
        matrices[name] = len(shape) >= 2

    return optax.chain(
        optax.scale_by_adam(optimizer.beta1, optimizer.beta2, optimizer.eps),
        optax.add_decayed_weights(optimizer.weight_decay, mask=matrices),
    )


def _adafactor(
    optimizer: Adafactor, shapes: Mapping[str, tuple[int, ...]]
) -> optax.GradientTransformation:
    """Return Adafactor, equal to that of transformers. Raises `RunError` for more than two axes."""
    for name, shape in shapes.items():
        if len(shape) > 2:
            raise RunError(
                f"`{name}` has {len(shape)} axes, and Adafactor on JAX supports at most two; use `adamw`"
            )
    parts = [
        # By default, optax factors only large matrices. Transformers factors all matrices.
        optax.scale_by_factored_rms(
            decay_rate=-optimizer.decay_rate, min_dim_size_to_factor=1
        ),
        optax.clip_by_block_rms(optimizer.clip_threshold),
        optax.add_decayed_weights(optimizer.weight_decay),
    ]
    if optimizer.scale_parameter:
        # This comes after the decay, since transformers scales the decay, too.
        parts.append(optax.scale_by_param_block_rms())
    return optax.chain(*parts)
