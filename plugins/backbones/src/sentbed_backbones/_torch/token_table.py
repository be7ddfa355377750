"""Tables of token vectors with their tokenizers, read from files or made at random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs
import torch
import transformers
from safetensors.torch import load_file
from sentbed import ModelError
from sentbed.helpers import sha256
from torch import Tensor

from sentbed_backbones._torch.loading import name_of_embeddings, read_tied_head
from sentbed_backbones._torch.quiet_transformers import quiet
from sentbed_backbones._torch.stored_weights import stored_weights, weight_hashes
from sentbed_backbones._torch.tokenizer_loading import (
    load_tokenizer,
    require_own_tokenizer,
)
from sentbed_backbones._torch.train_tokenizer import train_wordpiece
from sentbed_backbones.hub_models import fetch
from sentbed_backbones.model_file_checks import problems_of
from sentbed_backbones.token_table_folders import (
    TABLE_FILE,
    TOKENIZER_FILE,
    table_directory,
)

ROWS = "embedding.weight"
"""Name of the table in a file of StaticEmbedding, and in a saved backbone."""
MODEL2VEC = "embeddings"
"""Name of the table in a file of model2vec, which may also have the row (`mapping`) and the weight (`weights`)
of each token."""


@attrs.frozen(eq=False)
class TokenTable:
    """A table of token vectors, `(tokens, width)` in fp32, with a tokenizer of transformers."""

    rows: Tensor
    tokenizer: Any
    origin: Mapping[str, Any]
    """Where the table is from, for the manifest."""
    weights_directory: Path | None = None
    """Directory of the model of transformers whose input embeddings are the table; None if it has another
    origin."""


def from_saved(directory: Path) -> TokenTable:
    """Return the table of a saved backbone. Raises `ModelError` if table or tokenizer are missing or damaged."""
    rows = _read_table(directory)
    tokenizer = load_tokenizer(directory, False)
    digest = sha256(directory / TABLE_FILE)
    return TokenTable(rows, tokenizer, {"sha256": digest})


def from_texts(
    texts: Iterable[str],
    vocab_size: int,
    width: int,
) -> TokenTable:
    """Return random rows for a tokenizer that is trained on texts. Raises `ModelError` if there is no text."""
    tokenizer = train_wordpiece(texts, vocab_size)
    rows = torch.randn(len(tokenizer), width)
    return TokenTable(rows, tokenizer, {"init": "random"})


def from_model(
    model: str,
    revision: str | None,
    random: bool,
) -> TokenTable:
    """Return the table of a model (a directory or a hub id); with `random`, a random table of the same size.

    Raises:
        ModelError: if table or tokenizer are missing or damaged.
    """
    files = fetch(model, revision)
    table = table_directory(files.directory)
    origin: dict[str, Any] = {"model": model}
    weights_directory = None
    if table is not None:
        rows = _read_table(table)
        tokenizer = _read_tokenizer(table)
        origin["sha256"] = sha256(table / TABLE_FILE)
    else:
        for problem in problems_of(files.directory, True, False):
            raise ModelError(problem)

        weights_directory = files.directory
        rows = _input_embeddings(weights_directory)
        tokenizer = load_tokenizer(weights_directory, False)
        origin["sha256"] = weight_hashes(weights_directory)

    if not random:
        require_own_tokenizer(tokenizer, len(rows), files.directory)

    origin |= files.origin
    if random:
        rows = torch.randn_like(rows)
        origin["init"] = "random"

    return TokenTable(rows, tokenizer, origin, weights_directory)


def _read_tokenizer(directory: Path) -> Any:
    """Load the `tokenizer.json` that lies beside a table as a tokenizer of transformers, without changes."""
    file = directory / TOKENIZER_FILE
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds no `{TOKENIZER_FILE}`; fetch the model again"
        )

    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))


def _read_table(directory: Path) -> Tensor:
    """Return the table in a directory of StaticEmbedding or model2vec, `(tokens, width)` in fp32."""
    file = directory / TABLE_FILE
    if not file.is_file():
        raise ModelError(
            f"`{directory}` holds no `{TABLE_FILE}`; fetch the model again"
        )

    tensors = load_file(file)
    if ROWS in tensors:
        return tensors[ROWS].float()

    if MODEL2VEC not in tensors:
        names = ", ".join(f"`{name}`" for name in sorted(tensors)) or "nothing"
        raise ModelError(
            f"`{file}` holds {names}, expected `{ROWS}` or `{MODEL2VEC}`; name a folder of StaticEmbedding or "
            "model2vec, or a model of transformers"
        )

    rows = tensors[MODEL2VEC].float()
    if "mapping" in tensors:
        rows = rows[tensors["mapping"].long()]
    if "weights" in tensors:
        scales = tensors["weights"]
        # As in sentence-transformers, the product is rounded to fp32, whatever the precision in the file.
        rows = (rows * scales[:, None]).float()

    return rows


def _input_embeddings(directory: Path) -> Tensor:
    """Return the input embeddings of a model of transformers in fp32; no other weights are read."""
    with quiet():
        config = transformers.AutoConfig.from_pretrained(directory)
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            model = transformers.AutoModel.from_config(config)

    name = name_of_embeddings(model)
    stored = stored_weights(directory, lambda key: f".{key}".endswith(f".{name}"))
    for weight in stored.values():
        return weight.float()

    head = read_tied_head(config, directory)
    if head is not None:
        return head.float()

    raise ModelError(
        f"the weights in `{directory}` have no input embeddings (`{name}`); fetch the model again"
    )
