"""Static encoders (tables of token vectors) as the module `StaticEmbedding` of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import tokenizers
from safetensors import safe_open
from sentbed import ModelError

if TYPE_CHECKING:
    from sentbed import Encoder

STATIC_EMBEDDING = "StaticEmbedding"
"""Class of the module."""

TABLE_FILE, TABLE = "model.safetensors", "embedding.weight"
"""File of the module's weights, and the name of the table in it."""

TOKENIZER_FILE = "tokenizer.json"


def holds_table(directory: Path) -> bool:
    """Whether a backbone's directory is that of a `StaticEmbedding`, with only a table and a tokenizer."""
    file = directory / TABLE_FILE
    if not file.is_file() or not (directory / TOKENIZER_FILE).is_file():
        return False
    with safe_open(file, "pt") as weights:
        return list(weights.keys()) == [TABLE]


def require_static(encoder: Encoder, pooling: str) -> None:
    """Raise `ModelError` if `StaticEmbedding` does not have the pooling, or if the encoder has a prompt."""
    if pooling != "mean":
        raise ModelError(
            f"the pooler `{encoder.recipe.pooler.name}` cannot be exported with a table of token vectors: "
            "`StaticEmbedding` of sentence-transformers takes their mean; train with the pooler `mean`"
        )
    if encoder.recipe.resolved_prompt is not None:
        raise ModelError(
            "the encoder has a prompt, and `StaticEmbedding` of sentence-transformers has no place for one; "
            "train without it, since it adds the same to all vectors"
        )


def set_longest_text(directory: Path, max_length: int) -> None:
    """Let the tokenizer truncate texts to `max_length` tokens, since the module itself has no limit."""
    file = str(directory / TOKENIZER_FILE)
    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.enable_truncation(max_length)
    tokenizer.save(file)


def longest_text(directory: Path, default: int) -> int:
    """Return the number of tokens to which a module's tokenizer truncates texts, at most `default`.

    It is `default` if the tokenizer does not truncate texts.
    """
    file = directory / TOKENIZER_FILE
    truncation = json.loads(file.read_text("utf-8")).get("truncation")
    if not isinstance(truncation, dict):
        return default
    length = truncation.get("max_length")
    if not isinstance(length, int) or length < 1:
        return default
    return min(length, default)
