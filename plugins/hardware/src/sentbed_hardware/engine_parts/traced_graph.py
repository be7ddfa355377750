"""Tracing of an encoder for another library: example inputs, and the comparison of its graph with PyTorch."""

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
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, TraceableEncoder
from sentbed_hardware.engine_parts.encoding_engine import Project

INPUTS = ("input_ids", "attention_mask")
"""Names of the arguments of `TraceableEncoder.forward`."""

TEXT = "Two small birds sing in the old tree behind the house, and nobody hears them!"
"""A text whose tokens are the example inputs."""

LENGTH = 6
"""Tokens of the longer text in the example inputs."""

TOLERANCE = 1e-4
"""Largest difference from PyTorch's vectors, relative to the largest value of a batch."""

SHAPES = ((1,), (2, 1), (3, 9, 5, 9, 1), (9, 9, 9), (24, 2))
"""Lengths in tokens of the texts of each batch to compare; rows and lengths are not those of the trace."""


def parts_of(backbone: BuiltBackbone, module: EncoderModule) -> str:
    """Return the backbone and the pooler of a graph, for messages."""
    release, pooler = release_of(type(backbone).__module__), module.owners[1].name
    return f"the backbone of {release} with the pooler `{pooler}`"


def sample_ids(backbone: BuiltBackbone) -> NDArray[np.int32]:
    """Return the token ids of `TEXT`, `(tokens,)`."""
    return backbone.tokenizer.encode([TEXT], backbone.max_length).ids


def inputs_to_trace(ids: NDArray[np.int32]) -> tuple[Tensor, Tensor]:
    """Return ids and mask of two texts, `(2, LENGTH)`, one of which is padded; tokens are from `ids`."""
    row = torch.tensor(ids, dtype=torch.int64).repeat(LENGTH)[:LENGTH]
    rows = row.repeat(2, 1)
    mask = torch.ones_like(rows)
    mask[1, LENGTH // 2 :] = 0
    return rows, mask


@contextlib.contextmanager
def quiet_tracing() -> Iterator[None]:
    """Silence the warnings of tracing: that it is deprecated, and that sizes may become constants.

    `require_same_vectors` finds sizes that did. Settings of the process that a failed trace leaves behind are
    restored: OpenVINO sets the root logger to ERROR, and torch's exporter to ONNX switches off autocast's
    cache, without which training in bf16 keeps a copy of the weights for each pass.
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
    logging.disable(logging.WARNING)

    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def require_same_vectors(
    project: Project,
    encoder: TraceableEncoder,
    ids: NDArray[np.int32],
    longest: int,
    parts: str,
) -> None:
    """Compare a graph with its module on batches of many shapes, whose tokens are from `ids`.

    Raises:
        ModelError: if a vector differs, such as where tracing made a size a constant.
    """
    worst = 0.0
    for vectors, expected in _vectors_of_both(project, encoder, ids, longest):
        difference = np.abs(vectors - expected).max() / np.abs(expected).max()
        worst = float(np.maximum(worst, difference))

    # Also true if a vector has NaN.
    if not worst <= TOLERANCE:
        raise ModelError(
            f"the graph of {parts} gives vectors that differ from PyTorch's by {worst:.1e} of their largest "
            f"value, expected at most {TOLERANCE:g}; use the runtime `cpu`"
        )


def least_cosine(
    project: Project, encoder: TraceableEncoder, ids: NDArray[np.int32], longest: int
) -> float:
    """Return the least cosine between a graph's vectors and PyTorch's, over the same batches."""
    least = 1.0
    for vectors, expected in _vectors_of_both(project, encoder, ids, longest):
        least = float(np.minimum(least, cosines(vectors, expected).min()))

    return least


def cosines(vectors: Vectors, others: Vectors) -> Vectors:
    """Return the cosine of each row with that of `others`, `(rows,)`."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(others, axis=1)
    values: Vectors = (vectors * others).sum(1) / lengths
    return values


def _vectors_of_both(
    project: Project, encoder: TraceableEncoder, ids: NDArray[np.int32], longest: int
) -> Iterator[tuple[Vectors, Vectors]]:
    """Yield the graph's vectors of a batch, and PyTorch's."""
    draw = np.random.default_rng(0)
    for lengths in SHAPES:
        fitting = np.minimum(lengths, longest)
        mask = (np.arange(fitting.max()) < fitting[:, None]).astype(np.int64)
        rows = draw.choice(ids, mask.shape).astype(np.int64)
        with torch.inference_mode():
            expected = encoder(torch.from_numpy(rows), torch.from_numpy(mask)).numpy()
        yield project(rows, mask), expected
