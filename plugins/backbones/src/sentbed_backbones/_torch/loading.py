"""Loads a pretrained model of transformers, or initialises a random one."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from sentbed import ModelError
from sentbed.helpers import read_json
from sentbed.protocols import BuildContext, Intervention
from torch import Tensor

from sentbed_backbones._torch.built_transformer import BuiltTransformer, Family
from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.stored_weights import stored_weights, weight_hashes
from sentbed_backbones._torch.t5 import T5_MODEL_TYPES
from sentbed_backbones._torch.tokenizer_loading import (
    add_placeholder,
    load_tokenizer,
    require_own_tokenizer,
)
from sentbed_backbones._torch.weight_dtypes import DTYPES
from sentbed_backbones.adaptation import ADAPTER_WEIGHTS, PICKLED_ADAPTER
from sentbed_backbones.hub_models import ModelFiles, fetch
from sentbed_backbones.model_file_checks import (
    ADAPTER_DIRECTORY,
    BASE_FILE,
    problems_of,
)
from sentbed_backbones.transformer_base import Transformer, problem_of_intervention

DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "dropout_rate",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
)
"""Names that architectures give to the settings for dropout of states and of attention."""

OF_A_LAYER = re.compile(
    r"(^|\.)(layers?|block|h|embeddings)\.(?!position_ids$)"
    r"(?!.*\b(inv_freq|masked_bias|attn\.bias|attention\.bias)$)"
)
"""Names of the weights of layers and embeddings. Excluded are the weights of pre-training heads, and positions,
frequencies and causal masks: old files hold them, but the code now computes them."""

HEADS = ("lm_head.weight", "lm_head.decoder.weight", "cls.predictions.decoder.weight")
"""Names of the weights of language-modelling heads to which the input embeddings may be tied."""


def load(
    parameters: Transformer,
    family: Family,
    context: BuildContext,
) -> BuiltTransformer:
    """Load or initialise a backbone.

    Raises:
        ModelError: if weights are missing or incomplete, or need code that is not trusted.
    """
    saved = context.saved
    origin: dict[str, Any] = {"model": parameters.model, "init": parameters.init}
    base: dict[str, str] | None = None
    weights_directory: Path | None = None
    if saved is not None and not (saved / BASE_FILE).is_file():
        model, tokenizer = _from_directory(parameters, family, saved, True)
        origin["sha256"] = weight_hashes(saved)
    elif saved is None and parameters.model is None:
        model, tokenizer = _random_model(parameters, family, context)
        origin = {"init": "random", "size": getattr(parameters, "size", None)}
    else:
        is_pretrained = parameters.init == "pretrained"
        # An encoder saved with `BASE_FILE` has no base weights. They are those of the recipe's `model`, and
        # their hashes are checked.
        files = model_files(parameters)
        directory = files.directory
        model, tokenizer = _from_directory(parameters, family, directory, is_pretrained)
        if is_pretrained:
            weights_directory = directory
            base = weight_hashes(directory)
            origin |= {"sha256": base, **files.origin}
            if saved is not None:
                _require_same_base(saved / BASE_FILE, origin)

    if parameters.dtype != "fp32":
        origin["dtype"] = parameters.dtype
    if parameters.quantization is not None:
        origin["quantization"] = parameters.quantization
    if parameters.intervention is not None:
        _add_placeholder(parameters.intervention, tokenizer, model)

    blocks_run = family.depth(model)
    if blocks_run is None:
        blocks_run = int(model.config.num_hidden_layers)

    problem = problem_of_intervention(parameters.intervention, blocks_run)
    if problem is not None:
        raise ModelError(problem)

    model = adapt(model, parameters, saved, origin)
    family.configure(model)
    built = BuiltTransformer(parameters, family, model, tokenizer, origin, base)
    if saved is None:
        built.weights_directory = weights_directory

    return built


def model_files(parameters: Transformer) -> ModelFiles:
    """Return the files of the recipe's `model`; a hub id is downloaded."""
    assert parameters.model is not None
    return fetch(
        parameters.model,
        parameters.revision,
        code=parameters.trust_remote_code,
        weights=parameters.init == "pretrained",
    )


def _random_model(
    parameters: Transformer,
    family: Family,
    context: BuildContext,
) -> tuple[Any, Any]:
    """Return a model with random weights, and a tokenizer trained on the recipe's texts."""
    tokenizer = family.tokenizer(context)
    config = family.config(tokenizer)
    set_dropout(config, parameters.dropout)
    model = initialise(family, config, parameters)
    return _spread(model, parameters), tokenizer


def _add_placeholder(
    intervention: Intervention,
    tokenizer: Any,
    model: Any,
) -> None:
    """Add an intervention's placeholder to tokenizer and embeddings, unless a saved tokenizer has it already."""
    token = intervention.placeholder
    if token is None or token in tokenizer.get_vocab():
        return

    add_placeholder(tokenizer, token, intervention.placeholder_spacing)
    number = tokenizer.convert_tokens_to_ids(token)
    if number >= model.config.vocab_size:
        model.resize_token_embeddings(number + 1, mean_resizing=False)

    row = model.get_input_embeddings().weight[number]
    # The placeholder's row is the same in every run: a saved adapter does not include it, and runs of a study
    # share passes.
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        row.copy_(torch.randn(len(row), generator=generator))


def adapt(
    model: Any,
    parameters: Transformer,
    saved: Path | None,
    origin: dict[str, Any],
) -> Any:
    """Return the model with the recipe's new or trained adapter, and freeze what the recipe does not train."""
    if parameters.lora is not None or parameters.adapter is not None:
        model = _with_adapter(model, parameters, saved, origin)
    if parameters.freeze is not None:
        from sentbed_backbones._torch.adaptation import freeze

        freeze(model, parameters.freeze)

    return model


def _with_adapter(
    model: Any,
    parameters: Transformer,
    saved: Path | None,
    origin: dict[str, Any],
) -> Any:
    """Return the model with the adapter of a saved encoder, a new adapter or the recipe's `adapter`.

    Commit and hashes of the recipe's `adapter` are added to `origin`.
    """
    from sentbed_backbones._torch.adaptation import add_lora, load_adapter

    if saved is not None:
        return load_adapter(model, saved / ADAPTER_DIRECTORY)

    if parameters.lora is not None:
        return add_lora(model, parameters.lora)

    assert parameters.adapter is not None
    preferred = (ADAPTER_WEIGHTS, PICKLED_ADAPTER)
    files = fetch(parameters.adapter, parameters.adapter_revision, preferred=preferred)
    if "commit" in files.origin:
        origin["adapter_commit"] = files.origin["commit"]

    origin["adapter"] = weight_hashes(files.directory)
    return load_adapter(model, files.directory)


def _from_directory(
    parameters: Transformer,
    family: Family,
    directory: Path,
    with_weights: bool,
) -> tuple[Any, Any]:
    """Return the model in a directory, with random weights unless `with_weights` is true, and its tokenizer."""
    for problem in problems_of(directory, with_weights, parameters.trust_remote_code):
        raise ModelError(problem)

    tokenizer = load_tokenizer(directory, parameters.trust_remote_code)
    with quiet():
        config = read_config(parameters, family, directory)
        if with_weights:
            model = _load(directory, config, parameters, family)
        else:
            model = initialise(family, config, parameters)

    if with_weights:
        require_own_tokenizer(tokenizer, int(config.vocab_size), directory)

    return model, tokenizer


def read_config(
    parameters: Transformer,
    family: Family,
    directory: Path,
) -> Any:
    """Return the configuration in a model's directory, with the recipe's dropout.

    Raises:
        ModelError: if the architecture does not belong to the family, or has no dropout to set.
    """
    config = transformers.AutoConfig.from_pretrained(
        directory, trust_remote_code=parameters.trust_remote_code
    )
    if not parameters.trust_remote_code and "auto_map" in vars(config):
        warnings.warn(
            f"the model in `{directory}` brings Python code of its own, which does not run: transformers' own "
            "class is loaded, which may compute other vectors",
            stacklevel=2,
        )
        # What is saved names no other code.
        del config.auto_map

    suitable = backbones_for(config)
    if family.kind not in suitable:
        advice = "choose another model"
        if suitable:
            advice += f", or the backbone `{suitable[-1]}`"
        raise ModelError(
            f"the model in `{directory}` is a `{config.model_type}`, which the backbone `{parameters.name}` does "
            f"not take; {advice}"
        )

    set_dropout(config, parameters.dropout)
    return config


def backbones_for(config: Any) -> tuple[str, ...]:
    """Return the backbones that take a model with this configuration, the most general one last."""
    if config.model_type in T5_MODEL_TYPES:
        return ("t5",)
    if config.is_encoder_decoder or not hasattr(config, "max_position_embeddings"):
        return ()

    if type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        return ("bert",)
    if config.model_type == "opt":
        return ("opt", "causal")
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return ("causal",)
    if hasattr(config, "auto_map"):
        # The model's own code may compute either.
        return ("bert", "causal")

    return ()


def _load(
    directory: Path,
    config: Any,
    parameters: Transformer,
    family: Family,
) -> Any:
    """Return the model in a directory; its weights must fit the configuration."""
    options: dict[str, Any] = {}
    if parameters.device_map is not None:
        options["device_map"] = parameters.device_map
    if parameters.quantization is not None:
        from sentbed_backbones._torch.adaptation import nf4_config

        options.setdefault("device_map", {"": "cpu"})
        options["quantization_config"] = nf4_config(DTYPES[parameters.dtype])

    model, info = family.loader().from_pretrained(
        directory,
        config=config,
        dtype=DTYPES[parameters.dtype],
        trust_remote_code=parameters.trust_remote_code,
        output_loading_info=True,
        # Without this option, transformers raises an error that does not name the weight.
        ignore_mismatched_sizes=True,
        **options,
    )
    if parameters.quantization is not None:
        from sentbed_backbones._torch.adaptation import prepare_4bit

        prepare_4bit(model)

    model = _without_pooler(model)
    missing = sorted(
        key for key in info["missing_keys"] if not key.startswith("pooler.")
    )
    missing = _fill_embeddings_from_head(model, missing, directory)
    missing = family.fill_new_head(model, missing)
    _require_fit(directory, family, missing, info)
    return model


def _fill_embeddings_from_head(
    model: Any,
    missing: list[str],
    directory: Path,
) -> list[str]:
    """Fill missing input embeddings from a tied head in the files; return the names still missing."""
    embeddings = name_of_embeddings(model)
    if embeddings not in missing:
        return missing

    weight = model.get_input_embeddings().weight.data
    head = read_tied_head(model.config, directory)
    if head is None or head.shape != weight.shape:
        return missing

    weight.copy_(head)
    return [name for name in missing if name != embeddings]


def _require_fit(
    directory: Path,
    family: Family,
    missing: list[str],
    info: Mapping[str, Any],
) -> None:
    """Raise `ModelError` if weights are missing, have another shape or are not used.

    `info` is the `loading_info` of transformers, which would only warn, initialise missing weights at random
    and drop unused weights.
    """
    mismatched = sorted(name for name, _, _ in info["mismatched_keys"])
    unused = sorted(
        key
        for key in info["unexpected_keys"]
        if OF_A_LAYER.search(key) and not family.is_left_out(key)
    )
    if missing or mismatched or unused:
        counts = f"{len(missing)} weights missing, {len(mismatched)} of another shape, {len(unused)} unused"
        first = (missing + mismatched + unused)[0]
        advice = family.advice(missing)
        if "auto_map" in read_json(directory / "config.json"):
            advice = "read the Python code that the model brings, and set `trust_remote_code = true`"
        raise ModelError(
            f"the weights in `{directory}` do not fit its `config.json`: {counts}, the first is `{first}`; "
            f"{advice}"
        )


def name_of_embeddings(model: Any) -> str | None:
    """Return the name of the input embeddings among the model's parameters."""
    embeddings = model.get_input_embeddings().weight
    for name, parameter in model.named_parameters():
        if parameter is embeddings:
            return str(name)

    return None


def read_tied_head(config: Any, directory: Path) -> Tensor | None:
    """Return the weight of the head to which the input embeddings are tied; None if the files lack it.

    A file of safetensors holds tied weights once, under any of their names. transformers only looks for the
    name of the embeddings; if the weight has the head's name, it would initialise the embeddings at random.
    """
    if not getattr(config, "tie_word_embeddings", False):
        return None

    for head in stored_weights(directory, lambda name: name in HEADS).values():
        return head

    return None


def initialise(
    family: Family,
    config: Any,
    parameters: Transformer,
) -> Any:
    """Return a model of this configuration with random weights."""
    model = family.loader().from_config(
        config,
        dtype=DTYPES[parameters.dtype],
        trust_remote_code=parameters.trust_remote_code,
    )
    return _without_pooler(model)


def _spread(model: Any, parameters: Transformer) -> Any:
    """Distribute a random model over the machine's GPUs, as `from_pretrained` does with a pretrained model."""
    if parameters.device_map is None:
        return model

    from accelerate import dispatch_model, infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    # Layers that must not be divided between devices.
    whole = list(model._no_split_modules or ())
    memory = None
    if parameters.device_map != "sequential":
        memory = get_balanced_memory(model, no_split_module_classes=whole)

    placed = infer_auto_device_map(
        model, max_memory=memory, no_split_module_classes=whole
    )
    return dispatch_model(model, device_map=placed)


def _require_same_base(file: Path, origin: Mapping[str, Any]) -> None:
    """Raise `ModelError` unless the base weights have the hashes that `file`, a `BASE_FILE`, records."""
    if read_json(file)["sha256"] != origin.get("sha256"):
        raise ModelError(
            f"the adapter beside `{file}` was trained on other weights than those of `{origin['model']}`, or "
            "on another conversion of them; put the model back, or name the right one as `model`"
        )


def set_dropout(config: Any, dropout: float | None) -> None:
    """Set the dropout of states and attention in a configuration; if `dropout` is None, leave it as it is.

    Raises `ModelError` if the architecture has no such setting.
    """
    if dropout is None:
        return

    names = [name for name in DROPOUTS if hasattr(config, name)]
    if not names:
        raise ModelError(
            f"a `{config.model_type}` has no dropout that can be set; leave out `dropout`"
        )

    for name in names:
        setattr(config, name, dropout)


def _without_pooler(model: Any) -> Any:
    """Remove BERT's dense layer on [CLS]: it gets no gradient, but weight decay would change it."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None

    return model
