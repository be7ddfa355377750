"""Directories with a table of token vectors: StaticEmbedding of sentence-transformers, and model2vec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentbed import SentbedError
from sentbed.helpers import read_json

STATIC_EMBEDDING = "StaticEmbedding"
"""Module of sentence-transformers whose directory has a table and its tokenizer."""
TABLE_FILE, TOKENIZER_FILE = "model.safetensors", "tokenizer.json"
"""Files of a table and its tokenizer, also in a saved backbone."""


def table_directory(directory: Path) -> Path | None:
    """Return the directory that has a model's table and tokenizer; None for a model of transformers.

    In a model of sentence-transformers, it is the directory of the first module. Otherwise it is `directory`.
    """
    modules = _read_json(directory / "modules.json")
    if isinstance(modules, list) and modules and isinstance(modules[0], dict):
        kind = str(modules[0].get("type", ""))
        if kind.rpartition(".")[2] != STATIC_EMBEDDING:
            return None

        subfolder = Path(str(modules[0].get("path", "")))
        if subfolder.is_absolute() or ".." in subfolder.parts:
            return None

        return directory / subfolder

    config = _read_json(directory / "config.json")
    if isinstance(config, dict) and config.get("model_type") not in (None, "model2vec"):
        return None

    for name in (TABLE_FILE, TOKENIZER_FILE):
        if not (directory / name).is_file():
            return None

    return directory


def _read_json(file: Path) -> Any:
    """Return the content of a JSON file; None if the file does not exist or cannot be read."""
    try:
        return read_json(file)
    except (SentbedError, OSError, ValueError):
        return None
