"""Static encoders (tables of token vectors) as the module `StaticEmbedding` of sentence-transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import tokenizers
import torch
from safetensors import safe_open
from sentbed import ModelError
from sentbed.helpers import read_file

from sentbed_interop._torch.importer_common import LARGEST_JSON
from sentbed_interop._torch.sentence_transformers_tokenizer import BATTERY, LONG
from sentbed_interop.other_vectors_error import OtherVectorsError

if TYPE_CHECKING:
    from sentbed import Encoder

STATIC_EMBEDDING = "StaticEmbedding"
"""Class of the module."""

TABLE_FILE, TABLE = "model.safetensors", "embedding.weight"
"""File of the module's weights, and the name of the table in it."""

TOKENIZER_FILE = "tokenizer.json"

TOLERANCE = 1e-5
"""Largest allowed difference of vectors, relative to the largest absolute value."""


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
    truncation = json.loads(read_file(file, LARGEST_JSON)).get("truncation")
    if not isinstance(truncation, dict):
        return default
    length = truncation.get("max_length")
    if not isinstance(length, int) or length < 1:
        return default
    return min(length, default)


@torch.no_grad()
def require_same_static_vectors(
    encoder: Encoder,
    directory: Path,
    layers: torch.nn.Module,
) -> None:
    """Raise `OtherVectorsError` if the module, with `layers` after it, gives other vectors than the encoder."""
    texts = [*BATTERY, LONG, "", "   "]
    with safe_open(directory / TABLE_FILE, "pt") as weights:
        table = weights.get_tensor(TABLE)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / TOKENIZER_FILE))
    tokenizer.no_padding()

    rows = []
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        mean = torch.zeros(table.shape[1])
        if encoding.ids:
            mean = table[encoding.ids].mean(dim=0)
        rows.append(mean)

    vectors = layers(torch.stack(rows))
    if encoder.recipe.head.normalize:
        vectors = torch.nn.functional.normalize(vectors, dim=-1)

    expected = encoder.encode(texts)
    difference = np.abs(expected - vectors.numpy()).max() / np.abs(expected).max()
    if difference > TOLERANCE:
        raise OtherVectorsError(
            f"`StaticEmbedding` would give vectors that are {difference:.2g} apart: it averages all tokens of "
            "a text without special tokens, unknown words among them; train without `special_tokens` on the "
            "embeddings of a model, or take `--to onnx`"
        )
