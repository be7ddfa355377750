"""Checks of a training stage that all engines need: of encoders, their weights, and the columns that are keys.

Keys are texts that a moving average of an encoder's weights encodes, without gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sentbed import RunError
from sentbed.protocols import Training

from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware.engine_parts.encoder_module import EncoderModule


def common_width(encoders: Mapping[str, Any]) -> int:
    """Return the width of the vectors that the loss gets. Raises `RunError` if encoders differ in it."""
    (first, encoder), *others = encoders.items()
    start = int(encoder.trained_width)
    for name, other in others:
        width = int(other.trained_width)
        if width != start:
            raise RunError(
                f"vectors of the encoder `{first}` have the width {start}, those of `{name}` {width}, and the "
                "loss compares them; give both the same width, for example by "
                f"`head = {{ projection = {min(start, width)} }}`"
            )

    return start


def key_columns(training: Training) -> frozenset[str]:
    """Return the names of the columns that a moving average encodes; see `Loss.momentum`."""
    loss = training.loss
    if loss.momentum is None:
        return frozenset()

    return loss.keys


def towers_with_keys(training: Training) -> list[str]:
    """Return the names of the encoders for whose keys a moving average is needed.

    Raises:
        RunError: if an encoder encodes only keys, since no gradient would train it.
    """
    keys = key_columns(training)
    keyed = []
    for name in dict.fromkeys(training.towers.values()):
        columns = {column for column, of in training.towers.items() if of == name}
        if columns <= keys:
            listed = ", ".join(f"`{column}`" for column in sorted(columns))
            raise RunError(
                f"nothing trains the encoder `{name}`: all its columns ({listed}) are keys for the loss "
                f"`{training.loss.name}`, and a moving average encodes keys without gradient; use the encoder "
                "of another column for them, or freeze this one"
            )

        if columns & keys:
            keyed.append(name)

    return keyed


def require_trainable(
    name: str,
    alone: bool,
    module: EncoderModule,
    parameters: Tensors,
    bf16: bool,
) -> None:
    """Raise `RunError` if an encoder has no trainable weights, or weights of a dtype that cannot be trained.

    `parameters` are its trainable parameters. `alone` is whether it is the only encoder of the stage, `bf16`
    whether the engine computes in bf16.
    """
    called = f"the encoder `{name}`"
    if alone:
        called = "this encoder"
    if not parameters:
        raise RunError(
            f"nothing in {called} can be trained: everything is frozen or quantised; "
            "freeze less, add `lora = {}` to its backbone, or a `projection` to its head"
        )

    for key, parameter in parameters.items():
        if parameter.dtype != torch.float32:
            raise RunError(
                f"`{key}` is held in {parameter.dtype}, in which small updates are lost; train with "
                '`dtype = "fp32"` (and `precision = "bf16"` of the runtime for speed), or add `lora = {}`'
            )

    dtypes = {p.dtype for p in module.backbone.parameters() if p.is_floating_point()}
    if torch.float16 in dtypes and bf16:
        raise RunError(
            f"weights of {called} that are held in fp16 cannot be trained in bf16; "
            'set `dtype = "bf16"` for the backbone, or `precision = "fp32"` for the runtime'
        )
