"""Checks of a model's files, before a library reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed import ModelError, SentbedError, locate
from sentbed.helpers import foreign, read_file, read_json
from sentbed_common import pickled_files

from sentbed_backbones.quantised_checkpoints import quantisation_problem

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""Files each of which defines a tokenizer. Without any of them, transformers makes a tokenizer without words."""

ADAPTER_CONFIG = "adapter_config.json"
"""Configuration of an adapter, as peft writes it."""
ADAPTER_DIRECTORY = "adapter"
"""Directory of the adapter in a saved backbone, as peft reads it."""
BASE_FILE = "base.json"
"""File in a saved backbone that does not include its base weights: it has the hashes of these weights."""

TOKENIZER_SETTINGS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
"""Files that transformers reads beside a tokenizer's definition."""

LARGEST_JSON = 1 << 26
"""Largest size in bytes of a file of settings, an index of weights or the definition of a tokenizer."""

MOST_LAYERS = 1_000
"""Largest number of layers, or of experts, of a model."""

LARGEST_SIZES = {
    r"layers?$|experts?$": MOST_LAYERS,
    r"^num_labels$": 100_000,
    r"^(hidden|intermediate|embedding|ffn|moe_intermediate)_(size|dim)$|^d_(model|ff|kv)$|^n_embd$": 1
    << 20,
    r"^vocab_size$": 1 << 24,
}
"""Largest plausible sizes in a configuration; each key is a regular expression for names of settings."""

INDEXES = ("*.safetensors.index.json",)
"""Files that say which weight is in which shard."""

OTHER_WEIGHTS = (
    "pytorch_model*.bin",
    "*.pt",
    "*.pth",
    "*.ckpt",
    "*.h5",
    "*.msgpack",
    "*.onnx",
    "*.gguf",
)
"""Patterns of weight files that are not read, but mentioned in a message."""

LFS_POINTER = b"version https://git-lfs"
"""Beginning of a pointer file, which Git LFS keeps in the place of a large file."""

LARGEST_POINTER = 1024
"""Largest size in bytes of a pointer file of Git LFS."""


def is_local(model: str) -> bool:
    """Whether a model is a directory or `pkg:` path, not a hub id."""
    return model.startswith(("pkg:", "data:", ".", "/", "~"))


def files_like(directory: Path, patterns: Sequence[str]) -> list[Path]:
    """Return the files in a directory whose names match one of the patterns, in the order of the patterns."""
    files: list[Path] = []
    for pattern in patterns:
        files += sorted(directory.glob(pattern))

    return files


def problems_of_model(
    model: str | None,
    revision: str | None,
    problems_of_directory: Callable[[Path], Iterator[str]],
) -> Iterator[str]:
    """Yield why a recipe's `model` cannot be loaded, as far as that shows without asking the hub.

    `problems_of_directory` yields the problems of the directory of a local model; see `problems_of`.
    """
    if model is not None and not is_local(model):
        return

    if revision is not None:
        yield "`revision` is for a hub id, and the model is none; remove `revision`"
    if model is None:
        return

    try:
        directory = locate(model)
    except SentbedError as error:
        yield f"the model cannot be found: {error}"
        return

    yield from problems_of_directory(directory)


def problems_of(
    directory: Path,
    needs_weights: bool,
    trust_remote_code: bool,
) -> Iterator[str]:
    """Yield why the model in `directory` cannot be loaded; each sentence ends with what to do."""
    try:
        yield from _problems_of_files(directory, needs_weights, trust_remote_code)
    except SentbedError as error:
        yield str(error)


def _problems_of_files(
    directory: Path,
    needs_weights: bool,
    trust_remote_code: bool,
) -> Iterator[str]:
    """Yield the problems of `problems_of`. Raises `SentbedError` for a file that cannot be read."""
    files = sorted(directory.glob("*"))
    for file in files:
        if _is_lfs_pointer(file):
            yield (
                f"`{file}` is a pointer of Git LFS and not the file itself; run `git lfs pull` in "
                f"`{directory}`"
            )
            return

    if (directory / BASE_FILE).is_file():
        yield (
            f"`{directory}` holds no weights but an adapter's; name its base as `model` and "
            f'`adapter = "{directory / ADAPTER_DIRECTORY}"`, or merge them with `sentbed export`'
        )
        return

    config = directory / "config.json"
    if not config.is_file():
        yield _missing_configuration(directory)
        return

    with foreign(ModelError, f"`{config}` is not JSON", "fetch the model again"):
        content = read_json(config, LARGEST_JSON)

    if not isinstance(content, dict):
        yield f"`{config}` holds {content!r}, expected a table of settings; fetch the model again"
        return

    yield from _implausible_sizes(config, content)

    for file in files_like(directory, (*TOKENIZERS, *TOKENIZER_SETTINGS)):
        if file.stat().st_size > LARGEST_JSON:
            yield (
                f"`{file}` has more than {LARGEST_JSON:,} bytes, which no tokenizer has; fetch the model again"
            )

    if not files_like(directory, TOKENIZERS) and not _is_byt5(directory):
        yield f"`{directory}` holds no tokenizer; save it there with the tokenizer's `save_pretrained`"

    if "auto_map" in content and not trust_remote_code and not _is_known(content):
        yield (
            f"the model in `{directory}` brings Python code of its own; "
            "read it, then set `trust_remote_code = true` in the recipe's backbone or the saved encoder's "
            "`encoder.toml`, or choose a model of a known architecture"
        )

    if needs_weights:
        problem = quantisation_problem(content)
        if problem is not None:
            yield f"in `{directory}`, {problem}"

        yield from _weights_elsewhere(directory, content)
        yield from _missing_weights(directory)


def _is_byt5(directory: Path) -> bool:
    """Whether a directory's tokenizer is ByT5's, whose vocabulary is that of all bytes and has no file."""
    file = directory / "tokenizer_config.json"
    if not file.is_file():
        return False

    with foreign(ModelError, f"`{file}` is not JSON", "fetch the model again"):
        name = read_json(file, LARGEST_JSON).get("tokenizer_class")

    return bool(name == "ByT5Tokenizer")


def _is_known(config: Mapping[str, Any]) -> bool:
    """Whether transformers has the architecture of a configuration, so that it needs no other code."""
    from transformers import CONFIG_MAPPING

    return config.get("model_type") in CONFIG_MAPPING


def _is_lfs_pointer(file: Path) -> bool:
    """Whether a file is a pointer to a large file that `git lfs` has not fetched."""
    if not file.is_file() or file.stat().st_size > LARGEST_POINTER:
        return False

    return read_file(file, LARGEST_POINTER).startswith(LFS_POINTER)


def only_pickled(saved: Path, file: str) -> str:
    """Return the message about a saved encoder whose weights are only in the pickled `file`."""
    return (
        f"`{saved}` has only pickled weights (`{file}`), which are never read there: a saved encoder has "
        "safetensors, and this one was written by another program or is damaged; save the encoder again, or "
        "take another copy"
    )


def _missing_weights(directory: Path) -> Iterator[str]:
    """Yield a problem if there are no weights, or shards without their index."""
    weights = files_like(directory, ("*.safetensors",))
    if not weights and not pickled_files(directory):
        beside = ""
        for file in files_like(directory, OTHER_WEIGHTS)[:1]:
            beside = f", and `{file.name}` is not read"

        yield (
            f"found no weights in `{directory}`, expected `*.safetensors` or `pytorch_model.bin`{beside}; "
            "fetch the model again, or save it with `save_pretrained`"
        )

    is_single_file = (directory / "model.safetensors").is_file()
    if is_single_file or files_like(directory, INDEXES):
        return

    for file in weights:
        if re.search(r"-\d+-of-\d+\.safetensors$", file.name):
            yield (
                f"`{directory}` holds `{file.name}` and not `model.safetensors.index.json`, which says which "
                "weight is in which shard; fetch that file too"
            )
            return


def _implausible_sizes(file: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a problem for each size that no model has: building it would take hours, or fill the memory."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _implausible_sizes(file, value)
            continue

        for name, largest in LARGEST_SIZES.items():
            if isinstance(value, int) and re.search(name, key) and value > largest:
                yield f"`{file}` says `{key}` = {value:.3g}, more than {largest:,}; fetch the model again"


def _missing_configuration(directory: Path) -> str:
    """Return the problem of a directory without `config.json`."""
    if (directory / ADAPTER_CONFIG).is_file():
        return (
            f"`{directory}` holds an adapter and no model; name it as `adapter`, and as `model` the model "
            f"that it was trained on (`base_model_name_or_path` in its `{ADAPTER_CONFIG}`)"
        )
    for place in ("backbone", "encoder/backbone", "encoder/*/backbone"):
        for file in directory.glob(f"{place}/config.json"):
            return f"`{directory}` is no model, but was written by sentbed; use `{file.parent}`"
    return f"`{directory}` holds no `config.json`; name the directory that `save_pretrained` wrote"


def _weights_elsewhere(directory: Path, config: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for each reference to weights that are no safetensors file in the model's directory."""
    if (directory / ADAPTER_CONFIG).is_file():
        # transformers would load the base model that this file names, whatever model that is, instead of the
        # weights in this directory.
        yield (
            f"`{directory}` holds a model and, with `{ADAPTER_CONFIG}`, an adapter of another one; move that "
            "file away to load the model, or name the adapter's base as `model` and the adapter as `adapter`"
        )

    if "transformers_weights" in config:
        name = config["transformers_weights"]
        yield from _problem_of_reference(directory / "config.json", name)

    for index in files_like(directory, INDEXES):
        with foreign(
            ModelError, f"`{index}` is no index of weights", "fetch the model again"
        ):
            names = set(read_json(index, LARGEST_JSON)["weight_map"].values())

        for name in sorted(map(str, names)):
            yield from _problem_of_reference(index, name)


def _problem_of_reference(file: Path, name: Any) -> Iterator[str]:
    """Yield a problem if `name`, by which `file` refers to weights, is no safetensors file beside it."""
    is_name = isinstance(name, str) and Path(name).name == name
    if not is_name or not name.endswith(".safetensors"):
        yield (
            f"`{file}` names the weights {name!r}, expected a `.safetensors` file beside it; "
            "fetch the model again, or do not trust it"
        )
    elif not file.with_name(name).is_file():
        yield f"`{file}` names `{name}`, which is not there; fetch the model again"
