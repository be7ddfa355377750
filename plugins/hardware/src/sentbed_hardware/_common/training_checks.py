"""Checks of encoders and losses before and during training, shared by the engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sentbed import RunError
from sentbed.helpers import fault
from sentbed.protocols import Loss, LossOutput, Training

from sentbed_hardware._common.encoder_module import EncoderModule
from sentbed_hardware._common.prompt_ensembles import widths


def common_width(encoders: Mapping[str, Any], training: Training) -> int:
    """Return the width of the vectors that a loss compares. Raises `RunError` if they differ."""
    (first, start), *others = widths(training, encoders).items()
    for name, width in others:
        if width != start:
            raise RunError(
                f"the vectors of the encoder `{first}` are {start} wide, those of `{name}` {width}, and a "
                "loss compares them; give both one width, such as "
                f"`head = {{ projection = {min(start, width)} }}`"
            )
    return start


def refuse_predictions(training: Training, why: str) -> None:
    """Raise `RunError` if the loss predicts tokens, which an engine does not train."""
    if training.loss.traits.predicts:
        raise RunError(
            f"the loss `{training.loss.name}` predicts tokens, and {why}; train it in one process on the "
            "runtime `cpu` or `cuda`"
        )


def keys_of(training: Training) -> frozenset[str]:
    """Return the columns that a moving average encodes; see `LossTraits.momentum`."""
    loss = training.loss.traits
    return frozenset() if loss.momentum is None else loss.keys


def keyed_towers(training: Training) -> list[str]:
    """Return the encoders that have a moving average. Raises `RunError` for one that nothing trains."""
    keys, found = keys_of(training), []
    for name in dict.fromkeys(training.towers.values()):
        columns = {column for column, of in training.towers.items() if of == name}
        if columns <= keys:
            listed = ", ".join(f"`{column}`" for column in sorted(columns))
            raise RunError(
                f"nothing trains the encoder `{name}`: of its columns the loss "
                f"`{training.loss.name}` sees only keys ({listed}), which a moving average encodes "
                "without gradient; train the encoder of another column on them, or freeze this one"
            )
        if columns & keys:
            found.append(name)
    return found


def require_trainable(
    called: str, module: EncoderModule, parameters: Mapping[str, torch.Tensor], bf16: bool
) -> None:
    """Raise `RunError` if an encoder has no trainable weights, or has them in an untrainable type."""
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
    held = {p.dtype for p in module.backbone.parameters() if p.is_floating_point()}
    if torch.float16 in held and bf16:
        raise RunError(
            f"weights of {called} that are held in fp16 cannot be trained in bf16; "
            'set `dtype = "bf16"` for the backbone, or `precision = "fp32"` for the runtime'
        )


def require_output(output: object, loss: Loss, stateful: bool, recorded: bool) -> None:
    """Raise `PluginError` if the module of a loss has not returned what `Loss.build` promises.

    `recorded`: PyTorch has recorded the graph of the value, which must include a weight or a vector.
    """
    if not isinstance(output, LossOutput):
        wrong = f"returned a `{type(output).__name__}`, expected a `LossOutput`"
    elif not isinstance(output.loss, torch.Tensor) or output.loss.ndim:
        found = getattr(output.loss, "shape", None)
        shape = type(output.loss).__name__ if found is None else f"shape {tuple(found)}"
        wrong = f"returned a loss of the {'type ' if found is None else ''}{shape}, expected a scalar tensor"
    elif recorded and not output.loss.requires_grad:
        wrong = "returned a value without a gradient; do not detach it"
    elif stateful and output.state is None:
        wrong = "has a state and returned none; put it into its `LossOutput`"
    else:
        return
    raise fault(loss, "build", f"built a module that {wrong}")
