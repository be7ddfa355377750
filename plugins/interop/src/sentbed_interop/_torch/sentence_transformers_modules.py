"""The modules of a sentence-transformers folder that an encoder supports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from typing import Any, NoReturn

import attrs
import torch
from sentbed import ModelError
from sentbed.helpers import is_device
from sentbed.kinds import KINDS
from sentbed.protocols import PoolerTraits
from sentbed.tools import Plugins, load_plugins
from sentbed_common import in_safetensors

from sentbed_interop._torch.importer_common import read_json, read_setting, read_weights, require_known
from sentbed_interop._torch.sentence_transformers_names import OWN as OWN_DIRECTORY
from sentbed_interop._torch.sentence_transformers_names import POOLING

OWN = "sentence_transformers."
IDENTITY, TANH = "Identity", "Tanh"
ACTIVATIONS = {IDENTITY: "none", TANH: "tanh", "GELU": "gelu", "ReLU": "relu"}
"""Activation after a `Dense` -> that of a head's hidden layers."""
VECTOR = "sentence_embedding"
MOST_MODULES = 20
"""Modules of a folder; four are common."""
ORDER = "`Transformer`, `Pooling`, `Dense`, `Normalize`"
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
KNOWN = (
    *("transformer_task", "modality_config", "module_output_name", "unpad_inputs"),
    *("max_seq_length", "do_lower_case", "model_args", "model_kwargs"),
)
"""Settings of `Transformer` that are read, or that change no vector."""


@attrs.frozen
class Dense:
    """A linear layer."""

    directory: Path
    width: int
    bias: bool


@attrs.frozen
class Modules:
    """The modules of a folder."""

    transformer: Path
    mode: str
    pooler: str
    """Name of the equivalent pooler."""
    include_prompt: bool
    mlp: Dense | None
    dense: tuple[Dense, ...]
    """Layers of the head: the hidden ones, and the projection."""
    activation: str
    """What follows each hidden layer, by the head's name."""
    normalize: bool


def read_modules(source: Path) -> Modules:
    """Return the modules of a folder. Raises `ModelError` if an encoder does not support them."""
    require_files_inside(source, [source, source / OWN_DIRECTORY])
    entries = read_json(source / "modules.json", list)
    if len(entries) > MOST_MODULES:
        _refuse(source, f"it has {len(entries):,} modules, more than the {MOST_MODULES} that are read")
    found = [_module(entry, source) for entry in entries]
    require_files_inside(source, [directory for _, directory in found])
    names = [name for name, _ in found]
    if names[:2] != ["Transformer", "Pooling"]:
        listed = ", ".join(f"`{name}`" for name in names) or "no module"
        _refuse(source, f"it has {listed}, and an encoder is {ORDER}, in this order")
    transformer, pooling = found[0][1], found[1][1]
    file = pooling / "config.json"
    config = read_json(file)
    mode, pooler = _mode(config, file)
    mlp = None
    layers: list[tuple[Dense, str]] = []
    normalize = False
    for name, directory in found[2:]:
        if name == "Normalize" and not normalize:
            _require_on_vectors(read_config(directory), name, source)
            normalize = True
        elif name == "Dense" and not normalize:
            dense, activation, square = _dense(directory, source)
            if activation == TANH and square and mode == "cls" and mlp is None and not layers:
                mlp = dense
            else:
                layers.append((dense, activation))
        else:
            order = ", ".join(f"`{name}`" for name in names)
            _refuse(source, f"it has {order}, and an encoder is {ORDER}, in this order")
    hidden = {activation for _, activation in layers[:-1]}
    if layers and (layers[-1][1] != IDENTITY or len(hidden) > 1 or not hidden <= ACTIVATIONS.keys()):
        listed = ", ".join(f"`{activation}`" for _, activation in layers)
        _refuse(
            source,
            f"its `Dense` layers have the activations {listed}; a head has one of "
            f"{', '.join(f'`{known}`' for known in ACTIVATIONS)} after all layers but the last, which has "
            "`Identity`, and a tanh behind `cls`, as wide as the model, is that of the pooler `cls-mlp`",
        )
    if len({layer.bias for layer, _ in layers}) > 1:
        _refuse(source, "some of its `Dense` layers have a bias, and of a head all have one or none has")
    include = bool(read_setting(config, "include_prompt", bool, file, True))
    pooler = "cls-mlp" if mlp else pooler
    own, said = tuple(layer for layer, _ in layers), ACTIVATIONS[next(iter(hidden), IDENTITY)]
    return Modules(transformer, mode, pooler, include, mlp, own, said, normalize)


def settings_of(model: Path) -> Mapping[str, Any]:
    """Return the settings of `Transformer`. Raises `ModelError` if a backbone does not support them."""
    if (model / "adapter_config.json").is_file():
        raise ModelError(
            f"`{model}` holds an adapter on a model that lies elsewhere; import it with `--from peft` and "
            "the pooler that it was trained with, or merge it with peft first"
        )
    file = next((file for name in SETTINGS if (file := model / name).is_file()), model / SETTINGS[0])
    settings: Mapping[str, Any] = read_json(file) if file.is_file() else {}
    task = read_setting(settings, "transformer_task", str, file, "feature-extraction")
    modalities = read_setting(settings, "modality_config", dict, file) or {"text": {}}
    text = read_setting(modalities, "text", dict, file, {"method": ""}) or {}
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
    require_known(settings, KNOWN, file)
    return settings


def read_config(directory: Path) -> Mapping[str, Any]:
    """Return a module's settings; versions before 6 write none for `Normalize`."""
    file = directory / "config.json"
    return read_json(file) if file.is_file() else {}


def dense_weights(directory: Path) -> tuple[dict[str, torch.Tensor], Path]:
    """Return weight and bias of a `Dense`, and their file. Raises `ModelError`."""
    converted, _ = in_safetensors(directory, may_convert=True)
    file = converted / "model.safetensors"
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds neither `model.safetensors` nor `pytorch_model.bin`; fetch the model again"
        )
    return {name.removeprefix("linear."): value for name, value in read_weights(file).items()}, file


def _module(entry: Any, source: Path) -> tuple[str, Path]:
    """Return the class and the directory of a module."""
    if not isinstance(entry, dict) or not {"type", "path"} <= entry.keys():
        raise ModelError(
            f"`{source}/modules.json` holds {entry!r:.200}, expected a module; fetch the model again"
        )
    kind = str(entry["type"])
    if not kind.startswith(OWN):
        _refuse(source, f"its module `{kind}` is code of its own")
    return kind.rpartition(".")[2], _module_directory(str(entry["path"]), source)


def _module_directory(path: str, source: Path) -> Path:
    """Return the directory of a module. Raises `ModelError` if it leads out of the folder."""
    directory = source / path
    parts = PurePath(path).parts
    inside = not PurePath(path).is_absolute() and ".." not in parts
    if not inside or not _resolved(directory).is_relative_to(source.resolve()):
        raise ModelError(
            f"`{source}/modules.json` names the module `{path}`, which is not in the folder; nothing outside "
            "it is read: copy the module into the folder, or do not trust it"
        )
    return directory


def _resolved(path: Path) -> Path:
    """Return where a path leads. Raises `ModelError` for links in a circle and names that no file has."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"`{path}` leads to no file ({error}); fetch the model again") from error


def require_files_inside(source: Path, directories: Iterable[Path]) -> None:
    """Raise `ModelError` if a file in one of these directories of a folder is a link out of it, or no file.

    Files in the hub's cache are links to its `blobs`, which are taken.
    """
    root = source.resolve()
    roots = [root]
    if root.parent.name == "snapshots":
        roots.append(root.parent.parent / "blobs")
    for directory in filter(Path.is_dir, directories):
        for file in sorted(directory.iterdir()):
            place = _resolved(file)
            if not any(place.is_relative_to(known) for known in roots):
                raise ModelError(
                    f"`{file}` is a link out of the folder, to `{place}`; nothing outside it is read: put "
                    "the file itself there, or do not trust the folder"
                )
            if is_device(file):
                raise ModelError(f"`{file}` is a pipe or a device, expected a file; fetch the model again")


def poolers(plugins: Plugins) -> dict[str, str]:
    """Return, for each mode of pooling, an installed pooler that does only that; ours first."""
    found: dict[str, str] = {}
    for info in sorted(plugins.importable("pooler"), key=lambda info: info.distribution != "sentbed-poolers"):
        said = KINDS["pooler"].traits_of(info.cls)
        assert said is None or isinstance(said, PoolerTraits)
        needy = any(field.default is attrs.NOTHING for field in attrs.fields(info.cls))
        if said is None or needy or said.at_test or said.dense or said.template:
            continue
        if said.pooling in POOLING:
            found.setdefault(said.pooling, info.name)
    return found


def _mode(config: Mapping[str, Any], file: Path) -> tuple[str, str]:
    """Return the mode of pooling, and the pooler for it."""
    if "pooling_mode" in config:
        said = config["pooling_mode"]
        modes = [said] if isinstance(said, str) else read_setting(config, "pooling_mode", list, file) or []
    else:
        modes = [mode for mode, key in POOLING.items() if config.get(key)] or ["mean"]
    known = poolers(load_plugins())
    if len(modes) != 1 or modes[0] not in list(known):
        found = " and ".join(f"`{mode}`" for mode in modes) or "nothing"
        listed = ", ".join(f"`{mode}`" for mode in sorted(known))
        raise ModelError(
            f"`{file}` pools by {found}, and the poolers here know one of {listed}; a pooler plugin with "
            "this `pooling` would (`sentbed new plugin pooler NAME`)"
        )
    return str(modes[0]), known[modes[0]]


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
