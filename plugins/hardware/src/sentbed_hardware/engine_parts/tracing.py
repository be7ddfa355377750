"""Help for tracing an encoder into a graph of another library: example inputs, and a check of the graph."""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from sentbed import ModelError
from sentbed.helpers import release_of
from sentbed.protocols import BuiltBackbone
from torch import Tensor

from sentbed_hardware.engine_parts.component_output_checks import Vectors
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.encoding_engine import Project

INPUTS = ("input_ids", "attention_mask")
"""Names of the arguments of an encoder's module."""

TEXT = "Two small birds sing in the old tree behind the house, and nobody hears them!"
"""A text from whose tokens the example inputs are made."""

LENGTH = 6
"""Number of tokens of each text in the inputs to trace."""

TOLERANCE = 1e-4
"""Largest accepted difference from PyTorch's vectors, relative to the largest number of a batch."""

SHAPES = ((1,), (2, 1), (3, 9, 5, 9, 1), (9, 9, 9), (24, 2))
"""Batches with which a graph is checked: for each batch, the lengths of its texts in tokens. Each batch differs
from the inputs to trace in the number of rows, of tokens, or of both."""


def parts_of(backbone: BuiltBackbone, module: EncoderModule) -> str:
    """Return the encoder's name in error messages.

    Such a name is "the backbone of sentbed-backbones 1.0 with the pooler `mean`".
    """
    release = release_of(type(backbone).__module__)
    pooler = module.pooler_component.name
    return f"the backbone of {release} with the pooler `{pooler}`"


def sample_ids(backbone: BuiltBackbone) -> NDArray[np.int32]:
    """Return the token ids of `TEXT`, `(tokens,)`."""
    return backbone.tokenizer.encode([TEXT], backbone.max_length).ids


def inputs_to_trace(ids: NDArray[np.int32]) -> tuple[Tensor, Tensor]:
    """Return the ids and the mask of two texts with tokens from `ids`, each `(2, LENGTH)`.

    The second half of the second text is masked as padding.
    """
    row = torch.tensor(ids, dtype=torch.int64).repeat(LENGTH)[:LENGTH]
    rows = row.repeat(2, 1)
    mask = torch.ones_like(rows)
    mask[1, LENGTH // 2 :] = 0
    return rows, mask


@contextlib.contextmanager
def quiet_tracing() -> Iterator[None]:
    """Silence the warnings of tracing, and restore the settings that tracing changes.

    torch warns that tracing is deprecated, and that sizes may become constants. The latter warning is not
    needed: `require_same_vectors` finds sizes that became constants.

    After a failed trace, two settings of the process stay changed. OpenVINO sets the root logger's level to
    ERROR. torch's exporter to ONNX switches off autocast's cache; without this cache, training in bf16 keeps a
    copy of the weights for each pass.
    """
    root_logger = logging.getLogger()
    level = root_logger.level
    caches_casts = torch.is_autocast_cache_enabled()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root_logger.setLevel(level)
        torch.set_autocast_cache_enabled(caches_casts)


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Silence log messages below ERROR."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))

    try:
        yield
    finally:
        logging.disable(disabled)


def require_same_vectors(
    project: Project,
    encoder: EncoderModule,
    ids: NDArray[np.int32],
    longest: int,
    parts: str,
) -> None:
    """Compare the vectors of a graph with those of its torch module, on the batches of `SHAPES`.

    `project` runs the graph: it returns the vectors of ids and a mask. Tokens are drawn from `ids`, and texts are
    cut to `longest` tokens. `parts` names the encoder in the error's message.

    Raises:
        ModelError: if a vector differs, for example because tracing made a size a constant.
    """
    worst = 0.0
    for vectors, expected in _vectors_of_both(project, encoder, ids, longest):
        difference = np.abs(vectors - expected).max() / np.abs(expected).max()
        worst = float(np.maximum(worst, difference))

    # Written with `not`, since every comparison with NaN is false.
    if not worst <= TOLERANCE:
        raise ModelError(
            f"the graph of {parts} gives vectors that differ from PyTorch's by {worst:.1e} of their largest "
            f"value, expected at most {TOLERANCE:g}; use the runtime `cpu`"
        )


def _vectors_of_both(
    project: Project,
    encoder: EncoderModule,
    ids: NDArray[np.int32],
    longest: int,
) -> Iterator[tuple[Vectors, Vectors]]:
    """Yield the graph's and PyTorch's vectors of each batch of `SHAPES`."""
    generator = np.random.default_rng(0)
    for lengths in SHAPES:
        cut_lengths = np.minimum(lengths, longest)
        is_token = np.arange(cut_lengths.max()) < cut_lengths[:, None]
        mask = is_token.astype(np.int64)
        rows = generator.choice(ids, mask.shape).astype(np.int64)
        with torch.inference_mode():
            expected = encoder(torch.from_numpy(rows), torch.from_numpy(mask)).numpy()
        yield project(rows, mask), expected
