"""Comparison of the vectors of an exported folder with the encoder's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers

from sentbed_interop._torch.sentence_transformers_tokenizer import (
    SENTENCES,
    load_tokenizer,
)
from sentbed_interop.other_vectors_error import OtherVectorsError

if TYPE_CHECKING:
    from sentbed import Encoder

TOLERANCE = {"float32": 1e-5}
"""Precision of the weights -> largest allowed difference, relative to the largest number in the vectors."""

TOLERANCE_OF_LOW_PRECISION = 0.1
"""Largest allowed difference for weights in any other precision.

The encoder then computes in that precision, but this check in float32, so the vectors differ by rounding.
"""


def require_same_vectors(
    encoder: Encoder,
    directory: Path,
    pooling: str,
    layers: torch.nn.Module,
    length: int,
    dtype: str,
) -> None:
    """Raise `OtherVectorsError` if the model in `directory` does not give the encoder's vectors.

    `layers` are the linear layers after pooling; `length` is the largest number of tokens of a text.
    """
    texts = encoder.backbone.tokenizer.truncate(SENTENCES, encoder.recipe.max_length)
    expected = encoder.encode(texts)
    encoded = _encode(directory, texts, pooling, layers, length)
    if encoder.recipe.head.normalize:
        encoded = torch.nn.functional.normalize(encoded, dim=-1)
    vectors = encoded.numpy()

    if expected.shape != vectors.shape:
        fault = f"vectors of width {vectors.shape[1]} instead of {expected.shape[1]}"
    else:
        difference = float(np.abs(expected - vectors).max() / np.abs(expected).max())
        if difference <= TOLERANCE.get(dtype, TOLERANCE_OF_LOW_PRECISION):
            return
        fault = f"vectors that are {difference:.2g} apart"
    raise OtherVectorsError(
        f"the folder would give {fault}: either the backbone `{encoder.recipe.backbone.name}` computes "
        "something else than transformers with the same files, or the pooler "
        f"`{encoder.recipe.pooler.name}` is not what it says (`pooling = {pooling!r}`); take `--to onnx`"
    )


@torch.no_grad()
def _encode(
    directory: Path,
    texts: Sequence[str],
    pooling: str,
    layers: torch.nn.Module,
    length: int,
) -> torch.Tensor:
    """Return the vectors of texts as sentence-transformers computes them from a folder, before normalisation."""
    tokenizer = load_tokenizer(directory, length)
    model = _model(directory)
    batch = tokenizer(
        list(texts),
        padding=True,
        truncation=True,
        max_length=length,
        return_tensors="pt",
    )
    mask = batch["attention_mask"]
    states = model(input_ids=batch["input_ids"], attention_mask=mask).last_hidden_state
    vectors: torch.Tensor = layers(pool(states, mask, pooling))
    return vectors


def _model(directory: Path) -> Any:
    """Load the model in a directory with transformers, without messages.

    Raises `OtherVectorsError` if transformers cannot load it.
    """
    logging: Any = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(directory)
        loader: Any = transformers.AutoModel
        if type(config) in transformers.MODEL_FOR_TEXT_ENCODING_MAPPING:
            # Of T5 and similar models, sentence-transformers loads only the encoder.
            loader = transformers.AutoModelForTextEncoding
        return loader.from_pretrained(
            directory, config=config, dtype=torch.float32
        ).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise OtherVectorsError(
            f"transformers cannot load the model as the backbone saves it: {error}; take `--to onnx`"
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def pool(
    states: torch.Tensor,
    mask: torch.Tensor,
    pooling: str,
) -> torch.Tensor:
    """Pool states `(batch, length, width)`, padded on the right, as sentence-transformers does."""
    weights = mask[..., None].float()
    if pooling == "cls":
        return states[:, 0]
    if pooling == "lasttoken":
        return states[torch.arange(len(states)), mask.sum(1) - 1]
    if pooling == "max":
        return states.masked_fill(weights == 0, float("-inf")).amax(1)
    if pooling == "weightedmean":
        weights = weights * torch.arange(1, states.shape[1] + 1)[:, None]
    total = (states * weights).sum(1)
    if pooling == "mean_sqrt_len_tokens":
        return total / weights.sum(1).sqrt()
    return total / weights.sum(1)
