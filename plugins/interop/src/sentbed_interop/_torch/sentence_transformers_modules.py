"""Reading of the modules of a sentence-transformers folder, as far as an encoder supports them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
import torch
from sentbed import ModelError, PluginError
from sentbed.errors import listed
from sentbed.helpers import read_json
from sentbed.protocols import Pooler
from sentbed.tools import Plugins, load_plugins
from sentbed_common import read_tensors, weight_files

from sentbed_interop._torch.importer_common import (
    require_supported,
)
from sentbed_interop._torch.sentence_transformers_names import POOLING
from sentbed_interop._torch.static_embedding import STATIC_EMBEDDING

LIBRARY = "sentence_transformers."
"""Beginning of the names of the library's classes."""

IDENTITY, TANH = "Identity", "Tanh"
ACTIVATIONS = {IDENTITY: "none", TANH: "tanh", "GELU": "gelu", "ReLU": "relu"}
"""Class of the activation after a `Dense` -> name of the activation in a head."""

VECTOR = "sentence_embedding"
"""Name of a text's vector between modules."""

ORDER = "`Transformer`, `Pooling` (or `StaticEmbedding`), `Dense`, `Normalize`"
"""The modules of an encoder in their order, for messages."""

SETTINGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
)
"""Names of the file with the settings of `Transformer`, in different versions of the library."""

SUPPORTED = (
    *("transformer_task", "modality_config", "module_output_name", "unpad_inputs"),
    *("max_seq_length", "do_lower_case", "model_args", "model_kwargs"),
)
"""Settings of `Transformer` that are read, or that do not change vectors."""


@attrs.frozen
class Dense:
    """A module `Dense`: a linear layer with an activation."""

    directory: Path
    input_width: int
    width: int
    bias: bool
    activation: str
    """Class of the activation after the layer, such as `Tanh`."""

    @property
    def is_square_tanh(self) -> bool:
        """Whether the layer keeps the width and has a tanh, as in the pooler `cls-mlp`."""
        return self.width == self.input_width and self.activation == TANH


@attrs.frozen
class Modules:
    """The modules of a folder, with the corresponding parts of an encoder."""

    transformer: Path
    """Directory of the transformer, or of a static encoder's table of token vectors."""
    static: bool
    """Whether the encoder is static: a table of token vectors, in the module `StaticEmbedding`."""
    pooler: str
    """Name of the pooler that pools in the same way."""
    include_prompt: bool
    """Whether a prompt's tokens are pooled together with the text's."""
    mlp: Dense | None
    """The MLP of the pooler `cls-mlp`; None with another pooler."""
    dense: tuple[Dense, ...]
    """Layers of the head: the hidden layers, then the projection."""
    activation: str
    """Activation after each hidden layer, by its name in a head."""
    normalize: bool


def read_modules(source: Path) -> Modules:
    """Return the modules of a folder. Raises `ModelError` if an encoder does not support them."""
    if not (source / "modules.json").is_file():
        raise ModelError(
            f"`{source}` has no `modules.json`, so it is no folder of sentence-transformers; check the path"
        )
    entries = read_json(source / "modules.json")
    directories = []
    names = []
    for entry in entries:
        name, directory = _module(entry, source)
        names.append(name)
        directories.append(directory)

    static = names[:1] == [STATIC_EMBEDDING]
    if static:
        # `StaticEmbedding` takes the mean itself.
        transformer, *after_pooling = directories
        pooling_file = source / "modules.json"
        pooling_config: Mapping[str, Any] = {"pooling_mode": "mean"}
    elif names[:2] == ["Transformer", "Pooling"]:
        transformer, pooling, *after_pooling = directories
        pooling_file = pooling / "config.json"
        pooling_config = read_json(pooling_file)
    else:
        _refuse(
            source,
            f"it has {listed(names) or 'no module'}, and an encoder is {ORDER}, in this order",
        )

    mode, pooler = _mode(pooling_config, pooling_file)
    include_prompt = pooling_config.get("include_prompt", True)

    layers: list[Dense] = []
    normalize = False
    names_after = names[len(names) - len(after_pooling) :]
    for name, directory in zip(names_after, after_pooling, strict=True):
        if name == "Normalize" and not normalize:
            _require_on_vectors(read_config(directory), name, source)
            normalize = True
        elif name == "Dense" and not normalize:
            layers.append(_dense(directory, source))
        else:
            _refuse(
                source,
                f"it has {listed(names)}, and an encoder is {ORDER}, in this order",
            )

    mlp = None
    if mode == "cls" and layers and layers[0].is_square_tanh:
        mlp, *layers = layers
        pooler = "cls-mlp"
    activation = _hidden_activation(layers, source)
    return Modules(
        transformer,
        static,
        pooler,
        include_prompt,
        mlp,
        tuple(layers),
        activation,
        normalize,
    )


def _hidden_activation(layers: Sequence[Dense], source: Path) -> str:
    """Return the activation after the hidden layers of a head, by its name in the head.

    Raises:
        ModelError: if a head cannot have these layers.
    """
    if not layers:
        return ACTIVATIONS[IDENTITY]

    activations = [layer.activation for layer in layers]
    hidden = set(activations[:-1])
    if (
        activations[-1] != IDENTITY
        or len(hidden) > 1
        or not hidden <= ACTIVATIONS.keys()
    ):
        _refuse(
            source,
            f"its `Dense` layers have the activations {listed(activations)}; a head has one of "
            f"{listed(ACTIVATIONS)} after all layers but the last, which has `Identity`; a square layer with "
            "tanh after `cls` is that of the pooler `cls-mlp`",
        )
    if len({layer.bias for layer in layers}) > 1:
        _refuse(
            source,
            "some of its `Dense` layers have a bias; in a head, all layers have one or none has",
        )
    return ACTIVATIONS[next(iter(hidden), IDENTITY)]


def settings_of(model: Path) -> Mapping[str, Any]:
    """Return the settings of `Transformer`. Raises `ModelError` if backbones do not support them."""
    if (model / "adapter_config.json").is_file():
        raise ModelError(
            f"`{model}` holds an adapter on a model that lies elsewhere; merge it with peft first, or write a "
            "recipe with that model and this `adapter`"
        )
    file = _settings_file(model)
    if file is None:
        return {}

    settings: Mapping[str, Any] = read_json(file)
    task = settings.get("transformer_task", "feature-extraction")
    modalities = settings.get("modality_config") or {"text": {}}
    text = modalities.get("text")
    if (
        task != "feature-extraction"
        or text is None
        or not set(modalities) <= {"text", "message"}
        or text.get("method", "forward") != "forward"
        or text.get("method_output_name", "last_hidden_state") != "last_hidden_state"
        or settings.get("module_output_name", "token_embeddings") != "token_embeddings"
    ):
        raise ModelError(
            f"the `Transformer` in `{model}` reads {', '.join(sorted(modalities))} for {task}, and a "
            "backbone reads text and gives token states; import a model for text"
        )
    require_supported(settings, SUPPORTED, file)
    return settings


def _settings_file(model: Path) -> Path | None:
    """Return the file with the settings of `Transformer`; None if there is none."""
    for name in SETTINGS:
        if (model / name).is_file():
            return model / name
    return None


def read_config(directory: Path) -> Mapping[str, Any]:
    """Return the settings of a module. They are empty if it has no file, as `Normalize` before version 6."""
    file = directory / "config.json"
    if not file.is_file():
        return {}
    config: Mapping[str, Any] = read_json(file)
    return config


def dense_weights(directory: Path) -> dict[str, torch.Tensor]:
    """Return weight and bias of a `Dense`. Raises `ModelError` if there is none."""
    files = weight_files(directory)
    if not files:
        raise ModelError(
            f"`{directory}` holds neither `model.safetensors` nor `pytorch_model.bin`; fetch the model again"
        )
    weights = {}
    for name, value in read_tensors(files[0]).items():
        weights[name.removeprefix("linear.")] = value
    return weights


def _module(entry: Any, source: Path) -> tuple[str, Path]:
    """Return class and directory of a module. Raises `ModelError` if the class is not one of the library."""
    kind = str(entry["type"])
    if not kind.startswith(LIBRARY):
        _refuse(source, f"its module `{kind}` is code of its own")
    return kind.rpartition(".")[2], source / str(entry["path"])


def poolers(plugins: Plugins) -> dict[str, str]:
    """Return an installed pooler for each mode of pooling, by mode. A pooler of sentbed-poolers is preferred.

    A pooler that does more than this pooling, or has required fields, is left out.
    """
    by_mode: dict[str, str] = {}
    offers = [plugins.find("pooler", name) for name in plugins.names("pooler")]
    offers.sort(key=lambda offer: offer.distribution != "sentbed-poolers")
    for offer in offers:
        try:
            cls = offer.load()
        except PluginError:
            continue
        needs_fields = any(
            field.default is attrs.NOTHING for field in attrs.fields(cls)
        )
        if needs_fields:
            continue
        pooler: Pooler = cls()
        if pooler.at_test or pooler.dense or pooler.prompt:
            continue
        if pooler.pooling in POOLING:
            by_mode.setdefault(pooler.pooling, offer.name)
    return by_mode


def _mode(config: Mapping[str, Any], file: Path) -> tuple[str, str]:
    """Return the mode of pooling, and the pooler for it. Raises `ModelError` if there is no such pooler."""
    modes = _modes(config, file)
    pooler_of_mode = poolers(load_plugins())
    if len(modes) != 1 or modes[0] not in list(pooler_of_mode):
        in_file = " and ".join(f"`{mode}`" for mode in modes) or "nothing"
        raise ModelError(
            f"`{file}` pools by {in_file}, and the installed poolers support one of "
            f"{listed(sorted(pooler_of_mode))}; a pooler plugin with "
            "this `pooling` would (`sentbed new plugin pooler NAME`)"
        )
    return str(modes[0]), pooler_of_mode[modes[0]]


def _modes(config: Mapping[str, Any], file: Path) -> list[Any]:
    """Return the modes of pooling in the settings of `Pooling`, as release 6 or earlier releases write them."""
    if "pooling_mode" not in config:
        return [mode for mode, key in POOLING.items() if config.get(key)] or ["mean"]
    modes = config["pooling_mode"]
    if isinstance(modes, str):
        return [modes]
    return list(modes or [])


def _dense(directory: Path, source: Path) -> Dense:
    """Return the module `Dense` in a directory. Raises `ModelError` if a head cannot have such a layer."""
    config = read_json(directory / "config.json")
    if config.get("use_residual"):
        _refuse(source, "it has a `Dense` that is added to its input (`use_residual`)")
    _require_on_vectors(config, "Dense", source)
    width, input_width = int(config["out_features"]), int(config["in_features"])
    activation = str(config.get("activation_function", TANH)).rpartition(".")[2]
    return Dense(
        directory, input_width, width, bool(config.get("bias", True)), activation
    )


def _require_on_vectors(
    config: Mapping[str, Any],
    name: str,
    source: Path,
) -> None:
    """Raise `ModelError` if a module reads or writes something else than the text's vector."""
    input_name = config.get("module_input_name") or VECTOR
    output_name = config.get("module_output_name") or VECTOR
    if (input_name, output_name) != (VECTOR, VECTOR):
        _refuse(
            source,
            f"its `{name}` goes from `{input_name}` to `{output_name}`, not from vector to vector",
        )


def _refuse(source: Path, why: str) -> NoReturn:
    raise ModelError(
        f"`{source}` is no encoder: {why}; import another model, or write a recipe with this one's "
        "transformer as `model` of the backbone and train a head anew"
    )
