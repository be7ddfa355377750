"""Code shared by the importers: settings, weights, and the encoder of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from sentbed import Encoder, ModelError, RecipeError
from sentbed.helpers import foreign, read_file

T = TypeVar("T")

LARGEST_JSON = 1 << 26
"""Bytes of the largest file of settings."""

T5 = ("t5", "mt5", "umt5")
KINDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "a table of settings",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
"""Names of types, for messages."""


def read_json(file: Path, kind: type = dict) -> Any:
    """Return the content of a JSON file, an object or a list according to `kind`. Raises `ModelError`."""
    if not file.exists():
        raise ModelError(
            f"`{file.parent}` has no `{file.name}`, so it is not what this importer reads; "
            "check the path and `--from`, or fetch the model again"
        )
    with foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"):
        content = json.loads(read_file(file, LARGEST_JSON))
    if not isinstance(content, kind):
        raise ModelError(f"`{file}` holds {content!r:.80}, expected {KINDS[kind]}; fetch the model again")
    return content


def read_setting(
    table: Mapping[str, Any], key: str, kind: type[T], file: Path, default: T | None = None
) -> T | None:
    """Return a setting of a file, or `default` if it is missing or null. Raises `ModelError`."""
    found = table.get(key)
    if found is None:
        return default
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise ModelError(
            f"`{file}` says `{key}` = {found!r}, expected {KINDS[kind]}; mend it, or fetch the model again"
        )
    return found


def require_known(table: Mapping[str, Any], known: Iterable[str], file: Path) -> None:
    """Raise `ModelError` if a table has unknown settings, which may change vectors."""
    strange = sorted(
        key for key, value in table.items() if value not in (None, False, {}, []) and key not in known
    )
    if strange:
        raise ModelError(
            f"`{file}` has `{strange[0]}` = {table[strange[0]]!r}, by which vectors may change and which no "
            "encoder has; take it out if they stay the same"
        )


def backbone_for(config: Mapping[str, Any], place: object) -> str:
    """Return the name of the backbone that reads a model with this `config.json`.

    Raises:
        ModelError: if the configuration names no known model.
    """
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"the configuration of `{place}` has no `model_type`; fetch the model again")
    if kind in T5:
        return "t5"
    if kind == "opt":
        return "opt"
    try:
        from transformers.models.auto import modeling_auto as known
    except ImportError as error:
        raise ModelError(
            f"a `{kind}` needs a backbone, and none is installed; run `pip install sentbed-backbones`"
        ) from error
    masked = kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return "causal" if kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not masked else "bert"


def encoder_of(table: Mapping[str, Any], source: Path) -> Encoder:
    """Build the encoder of a table `[encoder]` made from `source`. Raises `ModelError`."""
    try:
        return Encoder.of(table)
    except RecipeError as error:
        reasons = "; and ".join(problem.message for problem in error.problems)
        raise ModelError(f"`{source}` makes no encoder: {reasons}") from error


def read_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a safetensors file. Raises `ModelError`."""
    with foreign(ModelError, f"`{file}` cannot be read", "fetch the model again"):
        return load_file(file)


def set_linear(layer: torch.nn.Linear, weights: Mapping[str, torch.Tensor], file: Path) -> None:
    """Set the weights of a linear layer, `weight` and optionally `bias`, by default 0.

    Raises:
        ModelError: if they have another shape, or are not finite.
    """
    found = {name: value.float() for name, value in weights.items()}
    if layer.bias is not None:
        found.setdefault("bias", torch.zeros_like(layer.bias))
    for name, value in layer.named_parameters():
        given = found.get(name)
        if given is None or given.shape != value.shape:
            shape = "nothing" if given is None else tuple(given.shape)
            raise ModelError(
                f"`{file}` has {shape} as the {name} of a layer, expected {tuple(value.shape)}; "
                "the files do not belong together, fetch the model again"
            )
        if not torch.isfinite(given).all():
            raise ModelError(f"`{file}` has NaN or infinite values as the {name} of a layer; take another")
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.copy_(found[name])
