"""Adapters, 4-bit weights and frozen layers of a transformers model, with peft and bitsandbytes."""

from __future__ import annotations

import copy
import json
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
import transformers
from sentbed import ModelError
from sentbed.errors import NotFiniteError, suggest
from sentbed.helpers import read_json
from sentbed_common import is_finite_tensor, read_tensors
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from sentbed_backbones._torch.token_states import base_of, blocks_of
from sentbed_backbones._torch.weight_dtypes import cast
from sentbed_backbones.adaptation import (
    ADAPTER_WEIGHTS,
    ALL_LINEAR,
    PICKLED_ADAPTER,
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

PLAIN_KEY = re.compile(r"\.lora_[AB]\.weight$")
"""Matches the name of a LoRA matrix, A or B. An adapter that only adds B A to weights of the model has no other
weights."""

LEAVES_THE_BASE = (True, False, "gaussian", "eva", "orthogonal")
"""Values of peft's `init_lora_weights` with which the base weights stay as in the model's files."""


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
    """Add a trained adapter to a transformers model in place and freeze everything else.

    An adapter that was trained on the model with a head is accepted too. The random generators are not used.

    Raises:
        ModelError: if the adapter is no plain LoRA, or has a weight that does not fit the model. The model may
            then have changed in part.
    """
    for problem in problems_of_adapter(directory):
        raise ModelError(problem)

    kind = read_json(directory / ADAPTER_CONFIG)["peft_type"]
    if kind != "LORA":
        raise ModelError(
            f"the adapter in `{directory}` is a `{kind}`, expected `LORA`; choose another adapter"
        )

    config = peft.LoraConfig.from_pretrained(str(directory))
    # The directory may also have the weights of a whole model.
    file = directory / ADAPTER_WEIGHTS
    if not file.is_file():
        file = directory / PICKLED_ADAPTER
    weights = _without_head(model, config, read_tensors(file))
    _require_additive(config, directory)

    config.task_type = peft.TaskType.FEATURE_EXTRACTION
    config.inference_mode = False
    # The adapter's weights are on the device meta, without memory, until those of the file replace them.
    adapted = _wrap(model, config, low_cpu_mem_usage=True)
    _require_fit(adapted, weights, directory)
    _set_lora_weights(adapted, weights)
    return adapted


def _set_lora_weights(adapted: peft.PeftModel, weights: Mapping[str, Tensor]) -> None:
    """Put the weights of a file into the LoRA layers, in float32 and on the device of the base weights."""
    for name, layer in adapted.named_modules():
        if not isinstance(layer, LoraLayer):
            continue

        base: Any = layer.get_base_layer()
        for part in ("lora_A", "lora_B"):
            # peft's own loading would cast the weight to the precision of the base weight.
            weight = weights[f"{name}.{part}.weight"]
            weight = weight.to(base.weight.device, torch.float32)
            getattr(layer, part)["default"].weight = nn.Parameter(weight)


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
    for layer in list(copied.modules()):
        if isinstance(layer, LoraLayer):
            base = layer.get_base_layer()
            delta_of: Any = layer.get_delta_weight  # type: ignore[attr-defined]  # its subclasses have it
            delta = sum(delta_of(name).float() for name in layer.active_adapters)
            weight = (_in_fp32(base) + delta).to(dtype)
            if not is_finite_tensor(weight):
                raise NotFiniteError(
                    f"the adapter makes weights of the shape {tuple(weight.shape)} infinite in {dtype}; "
                    "lower its `alpha`, encode in fp32, or take another adapter"
                )

            layer.base_layer = _with_weight(base, weight)

    plain = copied
    if isinstance(copied, peft.PeftModel):
        plain = copied.unload()

    if is_quantised(plain):
        for name, layer in list(plain.named_modules()):
            if _is_4bit(layer):
                weight = _in_fp32(layer).to(dtype)
                plain.set_submodule(name, _with_weight(layer, weight))

        plain.hf_quantizer.remove_quantization_config(plain)
        del plain.is_loaded_in_4bit

    plain.config.dtype = dtype
    return cast(plain, dtype).requires_grad_(False).eval()


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


def _wrap(
    model: Any,
    config: peft.LoraConfig,
    low_cpu_mem_usage: bool = False,
) -> peft.PeftModel:
    """Add an adapter with these settings to a model in place."""
    if is_quantised(model):
        prepare_4bit(model)

    with warnings.catch_warnings():
        # peft calls transformers by a deprecated name.
        warnings.filterwarnings(
            "ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning
        )
        return peft.PeftModelForFeatureExtraction(
            model, config, low_cpu_mem_usage=low_cpu_mem_usage
        )


def _weights(model: Any) -> dict[str, Tensor]:
    """Return the weights of a model's adapter, by the names that peft writes."""
    # With other values of `save_embedding_layers`, peft would ask the hub for the size of the vocabulary.
    return dict(peft.get_peft_model_state_dict(model, save_embedding_layers=False))


def _require_additive(config: peft.LoraConfig, directory: Path) -> None:
    """Raise `ModelError` if the adapter's settings change the base weights."""
    unsupported = []
    for name in ("layer_replication", "target_parameters"):
        if getattr(config, name, None):
            unsupported.append(name)

    if config.init_lora_weights not in LEAVES_THE_BASE:
        unsupported.append("init_lora_weights")

    for name in unsupported:
        raise ModelError(
            f"the adapter in `{directory}` has `{name} = {getattr(config, name)!r}`, by which the weights under "
            "it change; merge it into its model with peft, and name the result as `model`"
        )


def _without_head(
    model: Any,
    config: peft.LoraConfig,
    weights: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return the adapter's weights by the names that they have in a model without head.

    If the adapter was trained on the model with a head, its names of layers have a prefix
    (`base_model_prefix`). The prefix is removed from the names of the weights, and from the names of layers in
    `config`.
    """
    inner = f"{model.base_model_prefix}."
    start = "base_model.model."
    has_head = any(name.startswith(inner) for name, _ in model.named_modules())
    if has_head or not all(key.startswith(start + inner) for key in weights):
        return dict(weights)

    for setting in ("target_modules", "exclude_modules"):
        layers = getattr(config, setting)
        if not isinstance(layers, str | None):
            setattr(config, setting, [name.removeprefix(inner) for name in layers])

    for setting in ("rank_pattern", "alpha_pattern"):
        values = getattr(config, setting) or {}
        renamed_values = {}
        for name, value in values.items():
            renamed_values[name.removeprefix(inner)] = value
        setattr(config, setting, renamed_values)

    renamed = {}
    for key, value in weights.items():
        renamed[start + key.removeprefix(start + inner)] = value

    return renamed


def _require_fit(
    model: peft.PeftModel,
    weights: Mapping[str, Tensor],
    directory: Path,
) -> None:
    """Raise `ModelError` unless the file has exactly the adapter's weights, and the adapter only adds B A."""
    expected = _weights(model)
    has_variant = False
    for layer in model.modules():
        if isinstance(layer, LoraLayer) and layer.lora_variant:
            has_variant = True

    other = sorted(key for key in expected if not PLAIN_KEY.search(key))
    if other or has_variant:
        named = ""
        if other:
            named = f" (`{other[0]}`)"

        raise ModelError(
            f"the adapter in `{directory}` is more than a product of two matrices beside a weight{named}; "
            "merge it into its model with peft, and name the result as `model`"
        )

    missing = sorted(expected.keys() - weights.keys())
    extra = sorted(weights.keys() - expected.keys())
    reshaped = []
    for key in sorted(expected.keys() & weights.keys()):
        if expected[key].shape != weights[key].shape:
            reshaped.append(key)

    if missing or extra or reshaped:
        # peft would only warn, initialise missing weights at random and drop the extra weights.
        raise ModelError(
            f"the adapter in `{directory}` does not fit the model: {len(missing)} weights missing, "
            f"{len(reshaped)} of another shape, {len(extra)} for no layer, "
            f"the first is `{(missing + reshaped + extra)[0]}`; "
            "take the model that it was trained on, or fetch it again"
        )


def _is_4bit(layer: nn.Module) -> bool:
    """Whether a layer of bitsandbytes holds its weight in 4 bits."""
    # The class is recognised by its name, since bitsandbytes may not be installed. peft's wrapper has the same
    # attribute `weight`.
    kind = type(getattr(layer, "weight", None)).__name__
    return kind == "Params4bit" and not isinstance(layer, LoraLayer)


def _in_fp32(layer: Any) -> Tensor:
    """Return the weight of a layer in fp32, dequantised if it is in 4 bits."""
    if not _is_4bit(layer):
        return layer.weight.float()  # type: ignore[no-any-return]

    import bitsandbytes

    state = copy.copy(layer.weight.quant_state)
    assert not getattr(state, "packing_format_for_cpu", False), (
        "call `prepare_4bit` before the first pass"
    )
    state.dtype = torch.float32
    dequantised: Tensor = bitsandbytes.functional.dequantize_4bit(
        layer.weight.data, state
    )
    return dequantised


def _with_weight(layer: Any, weight: Tensor) -> Any:
    """Return an unquantised layer of the same kind with this weight."""
    if _is_4bit(layer):
        bias = layer.bias
        with torch.device("meta"):
            if issubclass(layer.source_cls, Conv1D):
                weight = weight.T.contiguous()
                layer = Conv1D(layer.out_features, layer.in_features)
            else:
                layer = nn.Linear(layer.in_features, layer.out_features)

        layer.bias = bias

    layer.weight = nn.Parameter(weight, requires_grad=False)
    return layer
