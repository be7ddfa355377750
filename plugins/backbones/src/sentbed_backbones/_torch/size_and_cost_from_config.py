"""Parameter counts, operations and memory of a backbone, from its configuration alone.

The model is built on the device `meta`, where tensors have no content; `pass_costs_on_meta_tensors` counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from sentbed import ModelError, SentbedError, locate
from sentbed_common import Outline, OutlineContext, hub_errors
from transformers.pytorch_utils import Conv1D

from sentbed_backbones._torch.built_transformer import Family, base_of, quiet
from sentbed_backbones._torch.loading import _adapt, _initialise, _set_dropout
from sentbed_backbones._torch.pass_costs_on_meta_tensors import costs
from sentbed_backbones._torch.tokenizer import BulkTokenizer
from sentbed_backbones._torch.tokenizer_loading import load_tokenizer
from sentbed_backbones._torch.weight_dtypes import DTYPES
from sentbed_backbones.hub_models import directory_fetched_before, hub_answers
from sentbed_backbones.model_file_checks import TOKENIZERS, is_local, problems_of
from sentbed_backbones.transformer_base import Transformer

ATTENTION_DROPOUTS = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
"""Settings of attention dropout. At 0, attention on a processor keeps as little for the backward pass as on
a GPU: no length x length matrix."""

QUANTISED_BLOCK, ABSMAX_BLOCK, TABLES = 64, 256, 1092
"""NF4 with double quantisation (Dettmers et al., 2023): weights per scale, scales per second-level scale, and
bytes of the tables of a layer."""


class _Vocabulary:
    """A stand-in for a tokenizer that is not trained yet."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def outline(
    parameters: Transformer, family: Family, context: OutlineContext
) -> Outline:
    """See `sentbed_common.resource_planning`. Raises `ModelError` if no configuration is available."""
    with quiet():
        tokenizer, at_most = None, ""
        if parameters.model is None:
            size = parameters.vocab_size  # type: ignore[attr-defined]  # every one of them has it
            config = family.config(_Vocabulary(size))
            source = f'size = "{parameters.size}"'  # type: ignore[attr-defined]
            at_most = f"a tokenizer trained on few texts has fewer than {size:,} tokens"
        else:
            directory, source = _configuration(parameters)
            tokenizer, config = _read(parameters, family, directory)
        _set_dropout(config, parameters.dropout)
        if context.device == "cuda":
            for name in ATTENTION_DROPOUTS:
                if hasattr(config, name):
                    setattr(config, name, 0.0)
        return _outline(parameters, family, context, config, source, at_most, tokenizer)


def _outline(
    parameters: Transformer,
    family: Family,
    context: OutlineContext,
    config: Any,
    source: str,
    at_most: str,
    tokenizer: BulkTokenizer | None,
) -> Outline:
    with torch.device("meta"):
        model = _initialise(
            family.loader(), config, parameters.trust_remote_code, parameters
        )
        below = sum(p.numel() for p in model.parameters())
        packed = 0
        if parameters.quantization is not None:
            model.requires_grad_(False)
            packed = _saved_by_4_bits(model)
        model = _adapted(model, parameters)
    count = sum(p.numel() for p in model.parameters())
    bytes_held = sum(p.numel() * p.element_size() for p in model.parameters()) - packed
    whole = parameters.quantization is not None or parameters.dtype != "fp32"
    copy = (
        0
        if whole or parameters.device_map is not None
        else below * _size(context.precision)
    )
    every_layer = "layers" in context.needs or any(
        numbers != (-1,) for numbers in family.readings
    )
    module = family.states(model, every_layer).train()
    trained = {
        name: tuple(p.shape) for name, p in module.named_parameters() if p.requires_grad
    }
    forward, backward, kept = costs(module, context)
    return Outline(
        parameters=count,
        trained={name.removeprefix("model."): shape for name, shape in trained.items()},
        weight_bytes=bytes_held,
        copy_bytes=copy,
        width=family.width(config),
        layers=int(config.num_hidden_layers),
        inner=_named(
            config, "intermediate_size", "d_ff", "ffn_dim", "n_inner", "hidden_dim"
        ),
        heads=_named(config, "num_attention_heads", "num_heads", "n_head", "n_heads"),
        vocabulary=int(config.vocab_size),
        max_length=family.max_length(base_of(model)),
        forward=forward,
        backward=backward,
        activations=kept,
        source=source,
        at_most=at_most,
        tokenizer=tokenizer,
    )


def _adapted(model: Any, parameters: Transformer) -> Any:
    """Add the adapter and freeze weights, as loading does."""
    if parameters.adapter is None:
        return _adapt(model, parameters, None, {})
    import peft

    from sentbed_backbones._torch.adaptation import _wrap, freeze

    if not is_local(parameters.adapter):
        raise ModelError(
            f"the adapter `{parameters.adapter}` is on the hub, and only a local one is read here"
        )
    config = peft.LoraConfig.from_pretrained(str(locate(parameters.adapter)))
    config.task_type = peft.TaskType.FEATURE_EXTRACTION
    config.inference_mode = False
    model = _wrap(model, config)
    if parameters.freeze is not None:
        freeze(model, parameters.freeze)
    return model


def _saved_by_4_bits(model: Any) -> int:
    """Return the bytes that the linear layers save in NF4."""
    saved = 0
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear | Conv1D):
            numbers = layer.weight.numel()
            scales = -(-numbers // QUANTISED_BLOCK)
            packed = -(-numbers // 2) + scales + 4 * -(-scales // ABSMAX_BLOCK) + TABLES
            saved += numbers * layer.weight.element_size() - packed
    return saved


def _read(
    parameters: Transformer, family: Family, directory: Path
) -> tuple[BulkTokenizer | None, Any]:
    for problem in problems_of(directory, False, parameters.trust_remote_code):
        if "no tokenizer" not in problem:
            raise ModelError(problem)
    trust = parameters.trust_remote_code
    try:
        config = transformers.AutoConfig.from_pretrained(
            directory, trust_remote_code=trust
        )
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"the configuration in `{directory}` cannot be read: {error}"
        ) from error
    if misfit := family.problem(config):
        raise ModelError(
            f"the model in `{directory}` is a `{config.model_type}`; {misfit}"
        )
    try:
        # Only the configuration of a hub id may be cached, and transformers would then invent a tokenizer.
        if not any(file for pattern in TOKENIZERS for file in directory.glob(pattern)):
            return None, config
        return BulkTokenizer(load_tokenizer(directory, trust)), config
    except (OSError, ValueError, KeyError, SentbedError):
        return None, config


def _configuration(parameters: Transformer) -> tuple[Path, str]:
    """Return the directory of the configuration, and a description of its source."""
    assert parameters.model is not None
    if is_local(parameters.model):
        directory = locate(parameters.model)
        return directory, f"config.json in {parameters.model}"
    import huggingface_hub

    model, revision = parameters.model, parameters.revision
    with hub_errors(ModelError, "model", model, revision):
        cached = huggingface_hub.try_to_load_from_cache(
            model, "config.json", revision=revision
        )
        if isinstance(cached, str):
            return Path(cached).parent, f"config.json of {model}, on this machine"
        fetched = directory_fetched_before(model, revision)
        if fetched is not None:
            return fetched, f"config.json of {model}, on this machine"
        if not hub_answers():
            raise ConnectionError("no connection")
        file = huggingface_hub.hf_hub_download(
            model, "config.json", revision=revision, etag_timeout=5
        )
    return Path(file).parent, f"config.json of {model}, from the hub"


def _named(config: Any, *names: str) -> int | None:
    return next(
        (int(value) for name in names if (value := getattr(config, name, None))), None
    )


def _size(precision: str) -> int:
    return DTYPES[precision].itemsize
