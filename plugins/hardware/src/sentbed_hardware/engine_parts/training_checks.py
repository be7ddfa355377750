"""Checks and interpretation of a stage's settings, for any engine that trains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sentbed import RunError
from sentbed.helpers import fault, returned
from sentbed.protocols import Loss, Optimizer, ParameterSettings, Training
from torch import nn

from sentbed_hardware._common.tensor_files import Tensors
from sentbed_hardware.engine_parts.encoder_module import EncoderModule


def common_width(encoders: Mapping[str, Any], training: Training) -> int:
    """Return the width of the vectors that a loss compares. Raises `RunError` if encoders differ in it."""
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
    """Raise `RunError` if the loss predicts tokens, for an engine that cannot train that; `why` is a clause."""
    if training.loss.traits.predicts:
        raise RunError(
            f"the loss `{training.loss.name}` predicts tokens, and {why}; train it in one process on the "
            "runtime `cpu` or `cuda`"
        )


def keys_of(training: Training) -> frozenset[str]:
    """Return the columns of keys, which a moving average encodes; see `LossTraits.momentum`."""
    loss = training.loss.traits
    if loss.momentum is None:
        return frozenset()

    return loss.keys


def keyed_towers(training: Training) -> list[str]:
    """Return the encoders that encode keys.

    Raises:
        RunError: if an encoder encodes only keys, since nothing would train it.
    """
    keys = keys_of(training)
    keyed = []
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

    `alone`: it is the only encoder of the stage.
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


def texts_a_row(training: Training, tower: str) -> int:
    """Return the number of texts per row and column of this tower: one for each of its prompts."""
    return training.ensembles.get(tower, (1, "mean"))[0]


def joined(training: Training, tower: str, vectors: Any) -> Any:
    """Return one vector per row: the mean or the concatenation of its vectors under a tower's prompts.

    `vectors`, `(prompts * rows, width)`, has all rows under the first prompt, then all rows under the second,
    and so on. It may be a tensor of any library.
    """
    count, how = training.ensembles.get(tower, (1, "mean"))
    if count == 1:
        return vectors

    width = vectors.shape[1]
    parts = vectors.reshape(count, -1, width)
    if how == "mean":
        return parts.mean(0)

    return parts.swapaxes(0, 1).reshape(-1, count * width)


def widths(training: Training, encoders: Mapping[str, Any]) -> dict[str, int]:
    """Return the width of each encoder's vectors as the loss gets them."""
    widths = {}
    for name, encoder in encoders.items():
        count, how = training.ensembles.get(name, (1, "mean"))
        widths[name] = int(encoder.trained_width)
        if how == "concatenate":
            widths[name] *= count

    return widths


def settings_of(
    module: nn.Module, loss: Loss, prefix: str
) -> dict[str, ParameterSettings]:
    """Return the `parameter_settings` of a loss's module, by the parameters' names after `prefix`.

    Raises:
        PluginError: if a name is that of no parameter, or the settings have another type.
    """
    parameters = dict(module.named_parameters())
    settings: dict[str, ParameterSettings] = {}
    for place, part in module.named_modules():
        for name, value in getattr(part, "parameter_settings", {}).items():
            path = name
            if place:
                path = f"{place}.{name}"
            if path not in parameters:
                wrong = f"built a module with `parameter_settings` of `{path}`, which is none"
                raise fault(loss, "build", wrong)

            special = returned(value, ParameterSettings, loss, "build")
            settings[prefix + path] = special

    return settings


def rate_factor(settings: ParameterSettings, optimizer: Optimizer) -> float:
    """Return the multiplier of the learning rate for a parameter with these settings."""
    if settings.lr is None:
        return 1.0

    return settings.lr / optimizer.lr


def require_decay(
    settings: Mapping[str, ParameterSettings], optimizer: Optimizer
) -> None:
    """Raise `RunError` if a parameter has a weight decay of its own, and the optimiser supports none."""
    for name, special in settings.items():
        if special.weight_decay is not None and not hasattr(optimizer, "weight_decay"):
            raise RunError(
                f"the loss's parameter `{name}` has a weight decay of its own, and the optimizer "
                f"`{optimizer.name}` has no `weight_decay`; take it out of the loss, or use `adamw`"
            )
