"""Checks of a model's files, before a library reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sentbed import SentbedError, locate
from sentbed.helpers import read_json

TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
"""Files each of which defines a tokenizer. Without any of them, transformers makes a tokenizer without words."""

TOKENIZER_CONFIG = "tokenizer_config.json"
"""Settings of a tokenizer, as transformers writes them."""

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
"""Files of weights; pickled ones are read if there are no others."""

ADAPTER_CONFIG = "adapter_config.json"
"""Configuration of an adapter, as peft writes it."""
ADAPTER_DIRECTORY = "adapter"
"""Directory of the adapter in a saved backbone, as peft reads it."""
BASE_FILE = "base.json"
"""File in a saved backbone that does not include its base weights: it has the hashes of these weights."""


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

    try:
        content = read_json(config)
    except (SentbedError, ValueError) as error:
        yield f"`{config}` cannot be read ({error}); fetch the model again"
        return

    if not files_like(directory, TOKENIZERS) and not _is_byt5(directory):
        yield f"`{directory}` holds no tokenizer; save it there with the tokenizer's `save_pretrained`"

    if "auto_map" in content and not trust_remote_code and not _is_known(content):
        yield (
            f"the model in `{directory}` brings Python code of its own; "
            "read it, then set `trust_remote_code = true` in the recipe's backbone or the saved encoder's "
            "`encoder.toml`, or choose a model of a known architecture"
        )

    if needs_weights:
        yield from _problems_of_weights(directory, content)


def _is_byt5(directory: Path) -> bool:
    """Whether a directory's tokenizer is ByT5's, whose vocabulary is that of all bytes and has no file."""
    return bool(tokenizer_settings(directory).get("tokenizer_class") == "ByT5Tokenizer")


def tokenizer_settings(directory: Path) -> dict[str, Any]:
    """Return the content of `tokenizer_config.json` in a model's directory; empty if there is no such file."""
    file = directory / TOKENIZER_CONFIG
    if not file.is_file():
        return {}

    settings: dict[str, Any] = read_json(file)
    return settings


def _is_known(config: Mapping[str, Any]) -> bool:
    """Whether transformers has the architecture of a configuration, so that it needs no other code."""
    from transformers import CONFIG_MAPPING

    return config.get("model_type") in CONFIG_MAPPING


def _problems_of_weights(directory: Path, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the weights in a directory cannot be loaded."""
    quantisation = config.get("quantization_config")
    if quantisation:
        yield (
            f"the weights in `{directory}` are quantised (`{quantisation.get('quant_method')}`), and a backbone "
            'reads unquantised ones; name their unquantised repository, with `quantization = "nf4"` if they are '
            "to be held in 4 bits"
        )

    if (directory / ADAPTER_CONFIG).is_file():
        # transformers would load the base model that this file names, whatever model that is, instead of the
        # weights in this directory.
        yield (
            f"`{directory}` holds a model and, with `{ADAPTER_CONFIG}`, an adapter of another one; move that "
            "file away to load the model, or name the adapter's base as `model` and the adapter as `adapter`"
        )

    if not files_like(directory, WEIGHTS):
        yield (
            f"found no weights in `{directory}`, expected `*.safetensors` or `pytorch_model.bin`; "
            "fetch the model again, or save it with `save_pretrained`"
        )


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
