"""Adapters, 4-bit weights and frozen layers of a transformers model, with peft and bitsandbytes."""

from __future__ import annotations

import copy
import json
import logging
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from sentbed import ModelError
from sentbed.errors import suggest
from sentbed.helpers import read_json
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.token_states import base_of, blocks_of
from sentbed_backbones._torch.weight_dtypes import cast
from sentbed_backbones.adaptation import (
    ADAPTER_WEIGHTS,
    ALL_LINEAR,
    Freeze,
    LoRA,
    problems_of_adapter,
)
from sentbed_backbones.model_file_checks import (
    ADAPTER_CONFIG,
)

# peft imports bitsandbytes. On a processor with bf16 instructions, bitsandbytes advertises a package that would
# fetch compiled code from the hub; the level hides that.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)

import peft  # noqa: E402
from peft.tuners.lora import LoraLayer  # noqa: E402

IN_A_LIST = re.compile(r"(^|\.)\d+\.")
"""Matches the name of a module that is in a list of modules, such as a transformer's layers."""


def add_lora(model: Any, lora: LoRA) -> peft.PeftModel:
    """Add a new adapter to a transformers model in place and freeze everything else.

    The adapter adds a product B A to each weight. B is initially 0, so that the model's vectors do not change
    before training.

    Raises:
        ModelError: if the model has no linear layer named in `lora.targets`.
    """
    targets: str | list[str] = ALL_LINEAR
    if lora.targets != ALL_LINEAR:
        targets = list(lora.targets)
        _require_linear_layers(model, targets)

    config = peft.LoraConfig(
        task_type=peft.TaskType.FEATURE_EXTRACTION,
        r=lora.r,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # peft says int, and only divides it
        lora_dropout=lora.dropout,
        target_modules=targets,
        # GPT-2 stores its weights transposed.
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
    )
    return _wrap(model, config)


def _require_linear_layers(model: Any, targets: Sequence[str]) -> None:
    """Raise `ModelError` unless each target is the end of a linear layer's name."""
    linear = []
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear | Conv1D):
            linear.append(f".{name}")

    for target in targets:
        if not any(name.endswith(f".{target}") for name in linear):
            endings = sorted({name.rpartition(".")[2] for name in linear})
            raise ModelError(
                f"the model has no linear layer `{target}`.{suggest(target, endings)}"
            )


def load_adapter(model: Any, directory: Path) -> peft.PeftModel:
    """Add a trained adapter of peft to a transformers model in place and freeze everything else.

    An adapter that was trained on the model with a head is accepted too. The random generators are not used.

    Raises:
        ModelError: if the adapter is no LoRA, or lacks a weight, or has one of another shape or for no layer. The
            model may then have changed in part.
    """
    for problem in problems_of_adapter(directory):
        raise ModelError(problem)

    kind = read_json(directory / ADAPTER_CONFIG)["peft_type"]
    if kind != "LORA":
        raise ModelError(
            f"the adapter in `{directory}` is a `{kind}`, expected `LORA`; choose another adapter"
        )

    config = peft.LoraConfig.from_pretrained(str(directory))
    config.task_type = peft.TaskType.FEATURE_EXTRACTION
    config.inference_mode = False
    weights = peft.load_peft_weights(str(directory), device="cpu")
    weights = _without_head(model, config, weights)
    adapted, missing, extra = _with_weights(model, config, weights)
    if missing or extra:
        raise ModelError(
            f"the adapter in `{directory}` does not fit the model: {len(missing)} weights missing or of "
            f"another shape, {len(extra)} for no layer, the first is `{(missing + extra)[0]}`; "
            "take the model that it was trained on, or fetch it again"
        )

    return adapted


def _with_weights(
    model: Any,
    config: peft.LoraConfig,
    weights: dict[str, Tensor],
) -> tuple[peft.PeftModel, list[str], list[str]]:
    """Add an adapter with these weights to a model in place; also return the names of those that do not fit."""
    with torch.random.fork_rng(devices=[]):
        adapted = _wrap(model, config)

    with warnings.catch_warnings():
        # A weight of another shape is left out, and so it is missing.
        warnings.filterwarnings("ignore", "Some weights of PeftModel", UserWarning)
        result: Any = peft.set_peft_model_state_dict(
            adapted, weights, ignore_mismatched_sizes=True
        )

    # The library counts the weights of the model among the missing ones.
    missing = [name for name in result.missing_keys if ".lora_" in name]
    for name in _weights(adapted):
        if name not in weights and ".lora_" not in name:
            missing.append(name)

    return adapted, missing, list(result.unexpected_keys)


def save_adapter(
    model: Any,
    directory: Path,
    base: str | None = None,
) -> None:
    """Write only the adapter, in peft's format (`adapter_config.json`, `adapter_model.safetensors`).

    `base` is the hub id of the base model, which is recorded; None if the base model is local.
    """
    directory.mkdir(parents=True, exist_ok=True)
    content = model.peft_config["default"].to_dict()
    content |= {"base_model_name_or_path": base, "inference_mode": True}

    # Sets are sorted, since their order differs between processes.
    text = json.dumps(
        content,
        indent=2,
        sort_keys=True,
        default=sorted,
    )
    (directory / ADAPTER_CONFIG).write_text(text + "\n", "utf-8")
    weights = {}
    for key, value in _weights(model).items():
        weights[key] = value.detach().cpu().contiguous()

    metadata = {"format": "pt"}
    safetensors.torch.save_file(weights, directory / ADAPTER_WEIGHTS, metadata)


@torch.no_grad()
def merged_copy(model: Any, dtype: torch.dtype) -> Any:
    """Return a copy of a model with its adapter merged into the weights, which have the type `dtype`.

    The copy is a plain model of transformers without adapter, in eval mode and without gradients. Weights are
    dequantised and merged in fp32. The original need not have an adapter, and is not changed.
    """
    copied = copy.deepcopy(model)
    if is_quantised(model):
        copied = _dequantised(copied)

    copied = cast(copied, torch.float32)
    if isinstance(copied, peft.PeftModel):
        copied = copied.merge_and_unload()

    copied.config.dtype = dtype
    return cast(copied, dtype).requires_grad_(False).eval()


def _dequantised(model: Any) -> Any:
    """Return a model in 4 bits, with or without adapter, with its weights in fp32; the original is used up."""
    for parameter in model.parameters():
        if type(parameter).__name__ == "Params4bit":
            parameter.quant_state.dtype = torch.float32

    plain = model
    weights: dict[str, Tensor] = {}
    config: Any = None
    if isinstance(model, peft.PeftModel):
        weights = _weights(model)
        config = model.peft_config["default"]
        plain = model.unload()

    transposed = []
    for name, layer in plain.named_modules():
        if _is_4bit(layer) and issubclass(layer.source_cls, Conv1D):
            transposed.append(name)

    with quiet():
        plain = plain.dequantize(torch.float32)

    # transformers dequantises each layer as `Linear`. GPT-2's files hold the transposed weights of `Conv1D`.
    for name in transposed:
        plain.set_submodule(name, _conv1d(plain.get_submodule(name)))

    plain.is_loaded_in_4bit = False
    if config is None:
        return plain

    config.fan_in_fan_out = bool(transposed)
    # OLoRA has already changed the base weights when the adapter was loaded.
    config.init_lora_weights = True
    adapted, _, _ = _with_weights(plain, config, weights)
    return adapted


def _conv1d(linear: Any) -> Conv1D:
    """Return a `Conv1D` that computes what a linear layer computes."""
    with torch.device("meta"):
        layer = Conv1D(linear.out_features, linear.in_features)

    layer.weight = nn.Parameter(linear.weight.T.contiguous())
    layer.bias = linear.bias
    return layer


def nf4_config(compute_dtype: torch.dtype) -> transformers.BitsAndBytesConfig:
    """Return the `quantization_config` for QLoRA: NF4 with double quantisation (Dettmers et al., 2023)."""
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=compute_dtype,
    )


def is_quantised(model: Any) -> bool:
    """Whether the weights of a model, with or without an adapter, are held in 4 bits."""
    return bool(getattr(model, "is_loaded_in_4bit", False))


def prepare_4bit(model: Any) -> Any:
    """Freeze a model in 4 bits, keep bitsandbytes from repacking its weights, and return it.

    `add_lora` and `load_adapter` call this function; for a model without adapter, it must be called before the
    first forward pass.

    On a processor with bf16 instructions, the first pass in eval mode would repack the weights, with coarser
    scales, into a form without gradient: later training would be wrong or fail. The first pass in any mode
    would round the biases to the compute type; they are rounded here, so that no pass changes them.
    """
    model.requires_grad_(False)
    for layer in model.modules():
        if _is_4bit(layer):
            layer.support_avx512bf16_for_cpu = False
            if layer.bias is not None and layer.compute_dtype is not None:
                layer.bias.data = layer.bias.data.to(layer.compute_dtype)

    return model


def freeze(model: Any, what: Freeze) -> None:
    """Freeze the embeddings and the first layers with their adapters, in place, as `what` says.

    Raises:
        ModelError: if the model has fewer layers than `what` freezes, or if its layers cannot be found.
    """
    base = base_of(model)
    if what.embeddings:
        embeddings = _embeddings(base)
        if not embeddings:
            raise ModelError(
                f"a `{base.config.model_type}` has no embeddings that can be found; leave out `embeddings`"
            )

        for embedding in embeddings:
            embedding.requires_grad_(False)

    if what.layers:
        encoder = base
        if base.config.is_encoder_decoder:
            encoder = base.encoder

        layers = blocks_of(encoder)
        if what.layers > len(layers):
            raise ModelError(
                f"`layers` is {what.layers}, the model has {len(layers)} layers; freeze at most so many"
            )

        for layer in layers[: what.layers]:
            layer.requires_grad_(False)


def _embeddings(base: Any) -> list[nn.Module]:
    """Return the embeddings of a model, except those within its layers (T5's position biases)."""
    if hasattr(base, "embeddings"):
        return [base.embeddings]

    embeddings: list[nn.Module] = []
    for name, module in base.named_modules():
        if isinstance(module, nn.Embedding) and not IN_A_LIST.search(name):
            embeddings.append(module)

    return embeddings


def _wrap(model: Any, config: peft.LoraConfig) -> peft.PeftModel:
    """Add an adapter with these settings to a model in place."""
    if is_quantised(model):
        prepare_4bit(model)

    with warnings.catch_warnings():
        # peft calls transformers by a deprecated name.
        warnings.filterwarnings(
            "ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning
        )
        return peft.PeftModelForFeatureExtraction(model, config)


def _weights(model: Any) -> dict[str, Tensor]:
    """Return the weights of a model's adapter, by the names that peft writes."""
    # With other values of `save_embedding_layers`, peft would ask the hub for the size of the vocabulary.
    return dict(peft.get_peft_model_state_dict(model, save_embedding_layers=False))


def _without_head(
    model: Any,
    config: peft.LoraConfig,
    weights: dict[str, Tensor],
) -> dict[str, Tensor]:
    """Return the adapter's weights by the names that they have in a model without head.

    If the adapter was trained on the model with a head, its names of layers have a prefix
    (`base_model_prefix`). The prefix is removed from the names of the weights, and of the layers in `config`.
    """
    inner = f"{model.base_model_prefix}."
    start = "base_model.model."
    has_head = any(name.startswith(inner) for name, _ in model.named_modules())
    if has_head or not all(name.startswith(start + inner) for name in weights):
        return weights

    for pattern in (config.rank_pattern or {}, config.alpha_pattern or {}):
        for name in list(pattern):
            pattern[name.removeprefix(inner)] = pattern.pop(name)

    targets: Any = config.target_modules
    if isinstance(targets, set):
        config.target_modules = [name.removeprefix(inner) for name in targets]

    renamed = {}
    for name, value in weights.items():
        renamed[start + name.removeprefix(start + inner)] = value

    return renamed


def _is_4bit(layer: nn.Module) -> bool:
    """Whether a layer of bitsandbytes holds its weight in 4 bits."""
    # The class is recognised by its name, since bitsandbytes may not be installed. peft's wrapper has the same
    # attribute `weight`.
    kind = type(getattr(layer, "weight", None)).__name__
    return kind == "Params4bit" and not isinstance(layer, LoraLayer)
