"""Checks of a model's files before anything heavy reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sentbed import ModelError, SentbedError
from sentbed.helpers import foreign, is_device, read_file
from sentbed_common import pickled_files

from sentbed_backbones.quantised_checkpoints import quantisation_problem

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""Files any of which defines a tokenizer; without them, transformers invents one that knows no words."""

ADAPTER_CONFIG = "adapter_config.json"
"""Configuration of an adapter, as peft writes it."""
ADAPTER_DIRECTORY = "adapter"
"""Directory of the adapter in a saved backbone, as peft reads it."""
BASE_FILE = "base.json"
"""File beside an adapter with the hashes of its base weights, which are not saved."""

TOKENIZER_SETTINGS = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
)
"""Files that transformers reads beside a tokenizer's definition."""

LARGEST_JSON = 1 << 26
"""Bytes of the largest file of settings, index of weights, or definition of a tokenizer."""

MOST_LAYERS = 1_000
"""Layers, or experts, of the largest model."""

LARGEST_SIZES = {
    r"layers?$|experts?$": MOST_LAYERS,
    r"^num_labels$": 100_000,
    r"^(hidden|intermediate|embedding|ffn|moe_intermediate)_(size|dim)$|^d_(model|ff|kv)$|^n_embd$": 1
    << 20,
    r"^vocab_size$": 1 << 24,
}
"""Names of sizes in a configuration, as a regular expression, and the largest that a model has."""

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
"""Weights that are not read; it is said that they are there."""

LFS_POINTER = b"version https://git-lfs"
"""Beginning of a file that stands for a large one."""

LARGEST_POINTER = 1024
"""Bytes of such a file at most."""


def is_local(model: str) -> bool:
    """Whether a model is a directory or `pkg:` path, not a hub id."""
    return model.startswith(("pkg:", "data:", ".", "/", "~"))


def problems_of(
    directory: Path, needs_weights: bool, trust_remote_code: bool
) -> Iterator[str]:
    """Yield why the model in `directory` cannot be loaded, as sentences that end with what to do."""
    config = directory / "config.json"
    if devices := [file for file in sorted(directory.glob("*")) if is_device(file)]:
        yield f"`{devices[0]}` is a pipe or a device, expected a file; fetch the model again"
        return

    if pointers := lfs_pointers(directory):
        yield (
            f"`{pointers[0]}` is a pointer of Git LFS and not the file itself; run `git lfs pull` in "
            f"`{directory}`"
        )
        return

    if (directory / BASE_FILE).is_file():
        yield (
            f"`{directory}` holds no weights but an adapter's; name its base as `model` and "
            f'`adapter = "{directory / ADAPTER_DIRECTORY}"`, or merge them with `sentbed export`'
        )
        return

    if not config.is_file():
        yield f"`{directory}` holds no `config.json`; name the directory that `save_pretrained` wrote"
        return

    try:
        with foreign(ModelError, f"`{config}` is not JSON", "fetch the model again"):
            content = json.loads(read_file(config, LARGEST_JSON))
    except SentbedError as error:
        yield str(error)
        return

    if not isinstance(content, dict):
        yield f"`{config}` holds {content!r}, expected a table of settings; fetch the model again"
        return

    yield from _sizes(config, content)
    read = (
        file
        for pattern in (*TOKENIZERS, *TOKENIZER_SETTINGS)
        for file in directory.glob(pattern)
    )
    for file in sorted(read):
        if file.stat().st_size > LARGEST_JSON:
            size = f"more than {LARGEST_JSON:,} bytes"
            yield f"`{file}` has {size}, which no tokenizer has; fetch the model again"

    if not any(file for pattern in TOKENIZERS for file in directory.glob(pattern)):
        yield f"`{directory}` holds no tokenizer; save it there with the tokenizer's `save_pretrained`"
    if "auto_map" in content and not trust_remote_code:
        yield (
            f"the model in `{directory}` brings Python code of its own; "
            "read it, then set `trust_remote_code = true` in the recipe's backbone or the saved encoder's "
            "`encoder.toml`, or choose a model of a known architecture"
        )

    if needs_weights and (problem := quantisation_problem(content)) is not None:
        yield f"in `{directory}`, {problem}"
    if needs_weights:
        yield from _outside(directory, content)
        yield from _incomplete(directory)


def lfs_pointers(directory: Path) -> list[Path]:
    """Return the files that stand for large ones which `git lfs` has not fetched."""
    pointers = []
    for file in sorted(directory.glob("*")):
        is_small = file.is_file() and file.stat().st_size <= LARGEST_POINTER
        if is_small and read_file(file, LARGEST_POINTER).startswith(LFS_POINTER):
            pointers.append(file)
    return pointers


def only_pickled(saved: Path, file: str) -> str:
    """Return why the weights of a saved encoder are refused that only the pickled `file` holds."""
    return (
        f"`{saved}` has only pickled weights (`{file}`), which are never read there: a saved encoder has "
        "safetensors, and this one was written by another program or is damaged; save the encoder again, or "
        "take another copy"
    )


def _incomplete(directory: Path) -> Iterator[str]:
    """Yield why there are no weights to read: none at all, or shards without the index that orders them."""
    plain = list(directory.glob("*.safetensors"))
    if not plain and not pickled_files(directory):
        others = sorted(
            file.name for pattern in OTHER_WEIGHTS for file in directory.glob(pattern)
        )
        beside = f", and `{others[0]}` is not read" if others else ""
        yield (
            f"found no weights in `{directory}`, expected `*.safetensors` or `pytorch_model.bin`{beside}; "
            "fetch the model again, or save it with `save_pretrained`"
        )

    shards = sorted(
        file.name
        for file in plain
        if re.search(r"-\d+-of-\d+\.safetensors$", file.name)
    )
    has_index = any(directory.glob("*.safetensors.index.json"))
    if shards and not has_index and not (directory / "model.safetensors").is_file():
        yield (
            f"`{directory}` holds `{shards[0]}` and not `model.safetensors.index.json`, which says which "
            "weight is in which shard; fetch that file too"
        )


def _sizes(file: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sizes that no model has: a model of them would be built for hours, or fill the memory."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _sizes(file, value)
            continue
        for name, largest in LARGEST_SIZES.items():
            if isinstance(value, int) and re.search(name, key) and value > largest:
                yield f"`{file}` says `{key}` = {value:.3g}, more than {largest:,}; fetch the model again"


def _outside(directory: Path, config: dict[str, Any]) -> Iterator[str]:
    """Yield why weights that the model names are not safetensors files in its own directory."""
    if (directory / ADAPTER_CONFIG).is_file():
        # transformers would load the base that it names, whatever that is, instead of the weights here.
        yield (
            f"`{directory}` holds a model and, with `{ADAPTER_CONFIG}`, an adapter of another one; move that "
            "file away to load the model, or name the adapter's base as `model` and the adapter as `adapter`"
        )

    named: list[tuple[str, Any]] = []
    if "transformers_weights" in config:
        named.append(("config.json", config["transformers_weights"]))

    for index in sorted(directory.glob("*.safetensors.index.json")):
        try:
            with foreign(
                ModelError, f"`{index}` is no index of weights", "fetch the model again"
            ):
                file_names = json.loads(read_file(index, LARGEST_JSON))[
                    "weight_map"
                ].values()
        except SentbedError as error:
            yield str(error)
            continue
        named += [(index.name, name) for name in dict.fromkeys(map(str, file_names))]

    for file, name in named:
        if (
            not isinstance(name, str)
            or Path(name).name != name
            or not name.endswith(".safetensors")
        ):
            yield (
                f"`{directory / file}` names the weights {name!r}, expected a `.safetensors` file beside it; "
                "fetch the model again, or do not trust it"
            )
        elif not (directory / name).is_file():
            yield f"`{directory / file}` names `{name}`, which is not there; fetch the model again"
