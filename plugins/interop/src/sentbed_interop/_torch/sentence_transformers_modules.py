"""Reading of a model of sentence-transformers as the parts of an encoder, as far as an encoder has such parts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
from sentbed import ModelError
from sentbed.errors import listed
from sentbed.helpers import foreign, read_json
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    StaticEmbedding,
    Transformer,
)

LIBRARY = "sentence_transformers."
"""Beginning of the names of the library's classes."""

IDENTITY, TANH = "Identity", "Tanh"
ACTIVATIONS = {IDENTITY: "none", TANH: "tanh", "GELU": "gelu", "ReLU": "relu"}
"""Class of the activation after a `Dense` -> name of the activation in a head."""

POOLERS = {
    "cls": "first",
    "lasttoken": "last",
    "max": "max",
    "mean": "mean",
    "weightedmean": "weighted-mean",
}
"""Mode of the module `Pooling` -> pooler that pools in the same way."""

MODES = (*POOLERS, "mean_sqrt_len_tokens")
"""Modes of the module `Pooling`, in which a pooler of a plugin may be exported."""

RIGHT = "right"
"""Side at which an encoder truncates texts."""

VECTOR = "sentence_embedding"
"""Name of a text's vector between modules."""

ORDER = "`Transformer`, `Pooling` (or `StaticEmbedding`), `Dense`, `Normalize`"
"""The modules of an encoder in their order, for messages."""


@attrs.frozen(eq=False)
class Modules:
    """The modules of a model, with the corresponding parts of an encoder."""

    static: bool
    """Whether the first module is `StaticEmbedding`, a table of token vectors."""
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
    limit: float
    """Largest number of tokens of an input; infinite without a limit."""


def load_model(source: Path) -> SentenceTransformer:
    """Load a folder with sentence-transformers, in fp32. Raises `ModelError` if it cannot be loaded."""
    if not (source / "modules.json").is_file():
        raise ModelError(
            f"`{source}` has no `modules.json`, so it is no folder of sentence-transformers; check the path"
        )
    entries = read_json(source / "modules.json")
    if not entries:
        _refuse(source, f"it has no module, and an encoder is {ORDER}")
    for entry in entries:
        if not str(entry["type"]).startswith(LIBRARY):
            _refuse(source, f"its module `{entry['type']}` is code of its own")
    if (model_directory(source) / "adapter_config.json").is_file():
        raise ModelError(
            f"`{source}` holds an adapter on a model that lies elsewhere; merge it with peft first, or write a "
            "recipe with that model and this `adapter`"
        )

    failure = f"sentence-transformers cannot load `{source}`"
    advice = "fetch the model again"
    with foreign(ModelError, failure, advice), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SentenceTransformer(
            str(source),
            device="cpu",
            local_files_only=True,
            model_kwargs={"dtype": "float32"},
        )
    # A table of token vectors stays in its own precision otherwise.
    return model.float()


def model_directory(source: Path) -> Path:
    """Return the directory of a folder's first module: its transformer, or its table of token vectors."""
    return source / str(read_json(source / "modules.json")[0]["path"])


def modules_of(model: SentenceTransformer, source: Path) -> Modules:
    """Return the modules of a model. Raises `ModelError` if an encoder does not support them."""
    first, *rest = model
    names = [type(module).__name__ for module in model]
    include_prompt: Any = True
    if isinstance(first, StaticEmbedding):
        # It takes the mean itself.
        mode: Any = "mean"
        truncation = first.tokenizer.truncation or {}
        limit = truncation.get("max_length", math.inf)
        side = truncation.get("direction", RIGHT)
    elif isinstance(first, Transformer) and rest and isinstance(rest[0], Pooling):
        pooling, *rest = rest
        mode, include_prompt = pooling.pooling_mode, pooling.include_prompt
        limit = first.max_seq_length or math.inf
        tokenizer: Any = first.tokenizer
        side = tokenizer.truncation_side
    else:
        _refuse(source, f"it has {listed(names)}, and an encoder is {ORDER}")
    if side != RIGHT:
        raise ModelError(
            f"the tokenizer of `{source}` cuts long texts at the left (`truncation_side`), and an encoder cuts "
            'them at the right; set it to "right" if the vectors of long texts do not matter'
        )
    if mode not in POOLERS:
        _refuse(source, f"it pools by {mode!r}, and poolers by {listed(POOLERS)}")

    normalize = bool(rest) and isinstance(rest[-1], Normalize)
    if normalize:
        rest.pop()
    layers = list(_dense_layers(rest, names, source))
    pooler, mlp = POOLERS[mode], None
    if mode == "cls" and layers and _is_square_tanh(layers[0]):
        mlp, *layers = layers
        pooler = "cls-mlp"
    return Modules(
        static=isinstance(first, StaticEmbedding),
        pooler=pooler,
        include_prompt=include_prompt,
        mlp=mlp,
        dense=tuple(layers),
        activation=_hidden_activation(layers, source),
        normalize=normalize,
        limit=limit,
    )


def _dense_layers(
    modules: Sequence[Any],
    names: Sequence[str],
    source: Path,
) -> Iterator[Dense]:
    """Yield the modules, each of which must be a `Dense` from vector to vector."""
    for module in modules:
        if not isinstance(module, Dense):
            _refuse(source, f"it has {listed(names)}, and an encoder is {ORDER}")
        if module.use_residual:
            _refuse(
                source, "it has a `Dense` that is added to its input (`use_residual`)"
            )
        if (module.module_input_name, module.module_output_name) != (VECTOR, VECTOR):
            _refuse(source, "it has a `Dense` that is not from vector to vector")
        yield module


def activation_of(layer: Dense) -> str:
    """Return the class of the activation after a layer."""
    return type(layer.activation_function).__name__


def _is_square_tanh(layer: Dense) -> bool:
    """Whether the layer keeps the width and has a tanh, as in the pooler `cls-mlp`."""
    is_square = layer.in_features == layer.out_features
    return is_square and activation_of(layer) == TANH


def _hidden_activation(layers: Sequence[Dense], source: Path) -> str:
    """Return the activation after the hidden layers of a head, by its name in the head.

    Raises:
        ModelError: if a head cannot have these layers.
    """
    activations = [activation_of(layer) for layer in layers]
    hidden = set(activations[:-1])
    is_head = len(hidden) <= 1 and hidden <= ACTIVATIONS.keys()
    if layers and not (is_head and activations[-1] == IDENTITY):
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


def _refuse(source: Path, why: str) -> NoReturn:
    raise ModelError(
        f"`{source}` is no encoder: {why}; import another model, or write a recipe with this one's "
        "transformer as `model` of the backbone and train a head anew"
    )
