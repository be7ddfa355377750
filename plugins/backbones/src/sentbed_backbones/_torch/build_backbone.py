"""Builds a backbone: with its weights, or only with the shapes that follow from its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from sentbed import ModelError
from sentbed.protocols import BuildContext, BuiltBackbone
from torch import nn
from transformers.pytorch_utils import Conv1D

from sentbed_backbones._torch.built_transformer import Family
from sentbed_backbones._torch.loading import (
    adapt,
    initialise,
    load,
    read_config,
    set_dropout,
)
from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.token_states import base_of
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones._torch.tokenizer_loading import load_tokenizer
from sentbed_backbones.hub_models import fetch
from sentbed_backbones.model_file_checks import (
    TOKENIZERS,
    files_like,
    problems_of,
)
from sentbed_backbones.transformer_base import Transformer

QUANTISED_BLOCK, ABSMAX_BLOCK, TABLES = 64, 256, 1092
"""Sizes in NF4 with double quantisation (Dettmers et al., 2023): weights per scale, scales per second-level
scale, and bytes of the tables of each layer."""


def build(
    parameters: Transformer,
    family_of: type[Family],
    context: BuildContext,
) -> BuiltBackbone:
    """Load or initialise a backbone; with `context.shapes_only`, build it without memory for weights.

    Raises:
        ModelError: if weights or the configuration are missing, or need code that is not trusted.
    """
    family = family_of(parameters, context.needs, context.template)
    if not context.shapes_only:
        return load(parameters, family, context)

    with quiet(), torch.device("meta"):
        return BuiltShapes(parameters, family)


class BuiltShapes(BuiltBackbone):
    """A model on torch's device `meta`, without weights; only configuration and local tokenizer are read."""

    def __init__(self, parameters: Transformer, family: Family) -> None:
        if parameters.adapter is not None:
            raise ModelError(
                "an `adapter` is only read with its weights; take `lora` with its rank to count it"
            )

        self.tokenizer: Any = None
        if parameters.model is None:
            size = parameters.vocab_size  # type: ignore[attr-defined]  # every one of them has it
            config = family.config(_Vocabulary(size))
            set_dropout(config, parameters.dropout)
            self.origin = {
                "init": "random",
                "size": parameters.size,  # type: ignore[attr-defined]  # every one of them has it
                "vocabulary": f"at most {size:,} tokens, fewer if it is trained on few texts",
            }
        else:
            directory = fetch(
                parameters.model, parameters.revision, weights=False
            ).directory
            config = _checked_config(parameters, family, directory)
            self.tokenizer = _read_tokenizer(parameters, directory)
            self.origin = {"model": parameters.model}

        model = initialise(family, config, parameters)
        if parameters.quantization is not None:
            _mark_four_bits(model)

        model = adapt(model, parameters, None, {})
        self.module = family.states(model)
        self.width = family.width(config)
        self.max_length = family.max_length(base_of(model))
        self.dispatched = parameters.device_map is not None


class _Vocabulary:
    """A stand-in for a tokenizer that is not trained yet."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def _mark_four_bits(model: Any) -> None:
    """Freeze a model, and set `held_bytes` of each linear layer's weight to its size in NF4."""
    model.requires_grad_(False)
    for layer in model.modules():
        if not isinstance(layer, nn.Linear | Conv1D):
            continue

        count = layer.weight.numel()
        scales = -(-count // QUANTISED_BLOCK)
        second_scales = -(-scales // ABSMAX_BLOCK)
        packed = -(-count // 2)
        weight: Any = layer.weight
        weight.held_bytes = packed + scales + 4 * second_scales + TABLES


def _checked_config(
    parameters: Transformer,
    family: Family,
    directory: Path,
) -> Any:
    """Return the configuration of a model; raises `ModelError` if it is damaged or of another architecture."""
    for problem in problems_of(directory, False, parameters.trust_remote_code):
        if "no tokenizer" not in problem:
            raise ModelError(problem)

    return read_config(parameters, family, directory)


def _read_tokenizer(parameters: Transformer, directory: Path) -> BulkTokenizer | None:
    """Return the tokenizer of a model; None if it is not on this machine."""
    # If only a hub id's configuration is cached, transformers would make a tokenizer without words.
    if not files_like(directory, TOKENIZERS):
        return None

    return BulkTokenizer(load_tokenizer(directory, parameters.trust_remote_code))
