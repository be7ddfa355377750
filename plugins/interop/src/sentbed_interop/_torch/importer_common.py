"""Reading of settings and weights, and building of encoders."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from sentbed import Encoder, ModelError, RecipeError
from sentbed.helpers import foreign, read_file

T = TypeVar("T")

LARGEST_JSON = 1 << 26
"""Largest size in bytes of a JSON file that is read; a larger file is an error."""

T5 = ("t5", "mt5", "umt5")
KINDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "a table of settings",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
"""Type -> its description in messages."""


def read_json(file: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file. Raises `ModelError` if it is missing, damaged or not of type `kind`."""
    if not file.exists():
        raise ModelError(
            f"`{file.parent}` has no `{file.name}`, so it is not what this importer reads; "
            "check the path and `--from`, or fetch the model again"
        )

    with foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"):
        content = json.loads(read_file(file, LARGEST_JSON))
    if not isinstance(content, kind):
        raise ModelError(
            f"`{file}` holds {content!r:.80}, expected {KINDS[kind]}; fetch the model again"
        )
    return content


def read_setting(
    table: Mapping[str, Any],
    key: str,
    kind: type[T],
    file: Path,
    default: T | None = None,
) -> T | None:
    """Return a setting of a file, or `default` if it is missing or null. Raises `ModelError` for another type."""
    value = table.get(key)
    if value is None:
        return default
    # In Python, truth values are whole numbers.
    is_bool_for_int = kind is int and isinstance(value, bool)
    if is_bool_for_int or not isinstance(value, kind):
        raise ModelError(
            f"`{file}` says `{key}` = {value!r}, expected {KINDS[kind]}; mend it, or fetch the model again"
        )
    return value


def require_supported(
    table: Mapping[str, Any],
    supported: Collection[str],
    file: Path,
) -> None:
    """Raise `ModelError` if a table has settings that are not supported, since they may change vectors.

    Settings that are off (null, false or empty) are allowed.
    """
    for key in sorted(table):
        value = table[key]
        is_off = value in (None, False, {}, [])
        if key not in supported and not is_off:
            raise ModelError(
                f"`{file}` has `{key}` = {value!r}, by which vectors may change and which no "
                "encoder supports; remove it if the vectors stay the same"
            )


def backbone_for(config: Mapping[str, Any], place: object) -> str:
    """Return the name of the backbone that reads a model with this configuration (`config.json`).

    Raises:
        ModelError: if the configuration has no type of model, or if no backbone is installed.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str):
        raise ModelError(
            f"the configuration of `{place}` has no `model_type`; fetch the model again"
        )
    if model_type in T5:
        return "t5"
    if model_type == "opt":
        return "opt"
    try:
        from transformers.models.auto import modeling_auto
    except ImportError as error:
        raise ModelError(
            f"a `{model_type}` needs a backbone, and none is installed; run `pip install sentbed-backbones`"
        ) from error

    if model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES:
        return "bert"
    if model_type in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        return "causal"
    return "bert"


def encoder_of(table: Mapping[str, Any], source: Path) -> Encoder:
    """Build an encoder from a table such as `[encoder]` of a recipe. Raises `ModelError` that names `source`."""
    try:
        return Encoder.of(table)
    except RecipeError as error:
        reasons = "; and ".join(map(str, error.problems))
        raise ModelError(f"`{source}` makes no encoder: {reasons}") from error


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file. Raises `ModelError` if it cannot be read."""
    with foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"):
        return load_file(file)


def set_linear(
    layer: torch.nn.Linear,
    weights: Mapping[str, torch.Tensor],
    file: Path,
) -> None:
    """Set the weights of a linear layer to `weight` and `bias` of `weights`; a missing bias is 0.

    Raises:
        ModelError: if a weight is missing, has another shape, or has values that are not finite.
    """
    values = dict(weights)
    if layer.bias is not None:
        values.setdefault("bias", torch.zeros_like(layer.bias))
    for name, parameter in layer.named_parameters():
        _require_fitting(name, values.get(name), parameter, file)

    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(values[name])


def _require_fitting(
    name: str,
    value: torch.Tensor | None,
    parameter: torch.Tensor,
    file: Path,
) -> None:
    """Raise `ModelError` if a value is missing, has another shape than the parameter, or is not finite."""
    shape: object = "nothing"
    if value is not None:
        shape = tuple(value.shape)
    if value is None or value.shape != parameter.shape:
        raise ModelError(
            f"`{file}` has {shape} as the {name} of a layer, expected {tuple(parameter.shape)}; "
            "the files do not belong together, fetch the model again"
        )
    if not torch.isfinite(value.float()).all():
        raise ModelError(
            f"`{file}` has NaN or infinite values as the {name} of a layer; use another model"
        )
