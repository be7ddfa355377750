"""Reading of settings and weights, and building of encoders."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from sentbed import Encoder, ModelError, RecipeError

T5 = ("t5", "mt5", "umt5")


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


def set_linear(layer: torch.nn.Linear, weights: Mapping[str, torch.Tensor]) -> None:
    """Set the weights of a linear layer to `weight` and `bias` of `weights`; a missing bias is 0."""
    values = dict(weights)
    if layer.bias is not None:
        values.setdefault("bias", torch.zeros_like(layer.bias))
    layer.load_state_dict(values)
