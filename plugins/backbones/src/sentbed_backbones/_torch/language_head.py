"""The output embedding of a language-modelling head: its last matrix, with one row per token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentbed import ModelError
from torch import Tensor

from sentbed_backbones._torch.stored_weights import stored_weights


def output_embedding(
    model: Any,
    loader: Any,
    files: Callable[[], Path | None],
    trust_remote_code: bool,
) -> Tensor:
    """Return the weights `(tokens, width)` of the last linear layer of a model's head.

    `model` is the transformer without head, `loader` the auto class of transformers that has a head. Weights
    that the head shares with the input embeddings are those of `model`, which may have been trained. Others are
    read from the directory `files()`, which is None for a model with random weights.

    Raises:
        ModelError: if the head does not say which weights these are, or if the files lack them.
    """
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        whole = loader.from_config(
            model.config, dtype=torch.float32, trust_remote_code=trust_remote_code
        )

    last = whole.get_output_embeddings()
    if last is None:
        raise ModelError(
            f"`{type(whole).__name__}` does not say which weights are its output embedding "
            "(`get_output_embeddings`); choose another model"
        )

    if last.weight is whole.get_input_embeddings().weight:
        weight: Tensor = model.get_input_embeddings().weight
        return weight

    names = []
    for name, parameter in whole.named_parameters(remove_duplicate=False):
        if parameter is last.weight:
            names.append(name)

    directory = files()
    if directory is not None:
        for stored in stored_weights(directory, lambda name: name in names).values():
            return stored

    where = "a model with random weights" if directory is None else f"`{directory}`"
    raise ModelError(
        f"{where} has no `{names[0]}`, the output embedding of `{type(whole).__name__}`; take files that were "
        "saved with it"
    )
