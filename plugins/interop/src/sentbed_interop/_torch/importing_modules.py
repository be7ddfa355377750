"""The modules of a folder of sentence-transformers, as far as an encoder has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import attrs
import torch
from sentbed import ModelError

from sentbed_interop._torch.importing import read_json, read_weights
from sentbed_interop.from_sentence_transformers import FLAGS, ORDER, POOLERS

OWN = "sentence_transformers."
IDENTITY, TANH = "Identity", "Tanh"
VECTOR = "sentence_embedding"
SETTINGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""Names that versions of the library have given to the settings of `Transformer`."""
UNKNOWN = ("processing_kwargs", "query_expansion", "config_kwargs", "config_args")
"""Settings of `Transformer` that change vectors and that no backbone has."""


@attrs.frozen
class Dense:
    """A linear layer."""

    directory: Path
    width: int
    bias: bool


@attrs.frozen
class Modules:
    """What a folder consists of."""

    transformer: Path
    mode: str
    include_prompt: bool
    mlp: Dense | None
    projection: Dense | None
    normalize: bool


def read_modules(source: Path) -> Modules:
    """Return the modules of a folder. Raises `ModelError` where an encoder cannot have them."""
    entries = read_json(source / "modules.json", list)
    found = [_module(entry, source) for entry in entries]
    names = [name for name, _ in found]
    if names[:2] != ["Transformer", "Pooling"]:
        listed = ", ".join(f"`{name}`" for name in names) or "no module"
        _refuse(source, f"it has {listed}, and an encoder is {ORDER}, in this order")
    transformer, pooling = found[0][1], found[1][1]
    config = read_json(pooling / "config.json")
    mode = _mode(config, source)
    mlp = projection = None
    normalize = False
    for name, directory in found[2:]:
        if name == "Normalize" and not normalize:
            _require_on_vectors(read_config(directory), name, source)
            normalize = True
        elif name == "Dense" and not normalize and projection is None:
            dense, activation, square = _dense(directory, source)
            if activation == IDENTITY:
                projection = dense
            elif activation == TANH and square and mode == "cls" and mlp is None:
                mlp = dense
            else:
                _refuse(
                    source,
                    f"it has a `Dense` with `{activation}`; a projection has no activation (`Identity`), and "
                    "a tanh is that of the pooler `cls-mlp`: behind `cls`, as wide as the model, once",
                )
        else:
            order = ", ".join(f"`{name}`" for name in names)
            _refuse(source, f"it has {order}, and an encoder is {ORDER}, each once and in this order")
    return Modules(transformer, mode, bool(config.get("include_prompt", True)), mlp, projection, normalize)


def settings_of(model: Path) -> Mapping[str, Any]:
    """Return the settings of `Transformer`. Raises `ModelError` where a backbone does not have them."""
    if (model / "adapter_config.json").is_file():
        raise ModelError(
            f"`{model}` holds an adapter on a model that lies elsewhere; import it with `--from peft` and "
            "the pooler that it was trained with, or merge it with peft first"
        )
    files = [file for name in SETTINGS if (file := model / name).is_file()]
    settings: Mapping[str, Any] = read_json(files[0]) if files else {}
    task = settings.get("transformer_task", "feature-extraction")
    modalities = settings.get("modality_config") or {"text": {}}
    text = modalities.get("text", {"method": None})
    if (
        task != "feature-extraction"
        or not set(modalities) <= {"text", "message"}
        or text.get("method", "forward") != "forward"
        or text.get("method_output_name", "last_hidden_state") != "last_hidden_state"
        or settings.get("module_output_name", "token_embeddings") != "token_embeddings"
    ):
        raise ModelError(
            f"the `Transformer` in `{model}` reads {', '.join(sorted(modalities))} for {task}, and a "
            "backbone reads text and gives token states; import a model for text"
        )
    if strange := [key for key in UNKNOWN if settings.get(key)]:
        raise ModelError(
            f"the `Transformer` in `{model}` has `{strange[0]}`, by which its vectors change and which no "
            "backbone has; save the model without it, if the vectors stay the same"
        )
    return settings


def read_config(directory: Path) -> Mapping[str, Any]:
    """Return a module's settings; versions before 6 write none for `Normalize`."""
    file = directory / "config.json"
    return read_json(file) if file.is_file() else {}


def dense_weights(directory: Path) -> tuple[dict[str, torch.Tensor], Path]:
    """Return weight and bias of a `Dense`, and their file. Raises `ModelError`."""
    file = directory / "model.safetensors"
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds no `model.safetensors`; weights are not read from pickles, which can run "
            "any code: load and save the model with sentence-transformers where you trust the file"
        )
    return {name.removeprefix("linear."): value for name, value in read_weights(file).items()}, file


def _module(entry: Any, source: Path) -> tuple[str, Path]:
    """Return the class and the directory of a module."""
    if not isinstance(entry, dict) or not {"type", "path"} <= entry.keys():
        raise ModelError(f"`{source}/modules.json` holds {entry!r}, expected a module; fetch the model again")
    kind = str(entry["type"])
    if not kind.startswith(OWN):
        _refuse(source, f"its module `{kind}` is code of its own")
    return kind.rpartition(".")[2], source / str(entry["path"])


def _mode(config: Mapping[str, Any], source: Path) -> str:
    if "pooling_mode" in config:
        mode = config["pooling_mode"]
        modes = [mode] if isinstance(mode, str) else list(mode)
    else:
        modes = [name for key, name in FLAGS.items() if config.get(key)] or ["mean"]
    if len(modes) != 1 or modes[0] not in POOLERS:
        known = ", ".join(f"`{mode}`" for mode in sorted(POOLERS))
        raise ModelError(
            f"`{source}` pools by {' and '.join(f'`{mode}`' for mode in modes)}, and the poolers here know "
            f"one of {known}; a pooler plugin can have it (`sentbed new plugin pooler NAME`), in a recipe "
            "whose backbone names this model"
        )
    return str(modes[0])


def _dense(directory: Path, source: Path) -> tuple[Dense, str, bool]:
    """Return a layer, its activation, and whether it is as wide as its input."""
    config = read_json(directory / "config.json")
    if config.get("use_residual"):
        _refuse(source, "it has a `Dense` that is added to its input (`use_residual`)")
    _require_on_vectors(config, "Dense", source)
    try:
        width, before = int(config["out_features"]), int(config["in_features"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"`{directory}/config.json` does not say how wide the layer is; fetch the model again"
        ) from error
    activation = str(config.get("activation_function", TANH)).rpartition(".")[2]
    return Dense(directory, width, bool(config.get("bias", True))), activation, width == before


def _require_on_vectors(config: Mapping[str, Any], name: str, source: Path) -> None:
    places = [config.get(key) or VECTOR for key in ("module_input_name", "module_output_name")]
    if places != [VECTOR, VECTOR]:
        _refuse(source, f"its `{name}` goes from `{places[0]}` to `{places[1]}`, not from vector to vector")


def _refuse(source: Path, why: str) -> NoReturn:
    raise ModelError(
        f"`{source}` is no encoder: {why}; import another model, or write a recipe with this one's "
        "transformer as `model` of the backbone and train a head anew"
    )
