"""Comparison of an ONNX graph with its encoder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from sentbed import Encoder
from sentbed.helpers import pad
from sentbed.protocols import TokenIds

from sentbed_interop._torch.onnx_graph import INPUTS, OUTPUT

TEXTS = (
    "Two small birds sing in the old tree behind the house, and nobody hears them!",
    "Is a vector of 384 numbers enough for it? 7, 8 and 9 are; 10 (ten) is not.",
)
"""Texts for the token ids of the comparison."""
MIXED = 64
"""Length of the longest text in batches of many lengths, in tokens."""


def open_session(path: Path) -> Any:
    """Open a graph on this machine's processor, with as many threads as torch has."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )


def difference(encoder: Encoder, session: Any) -> float:
    """Return the largest difference of the graph's vectors, over batches of many shapes.

    It is relative to the largest value of the encoder's vectors in the batch; NaN if a vector has one.
    """
    differences = [0.0]
    for tokens in _batches(encoder):
        batch = pad(tokens, np.arange(len(tokens)), encoder.backbone.tokenizer.pad_id)
        mask = batch.attention_mask
        if mask is None:
            mask = np.ones_like(batch.input_ids)

        expected = encoder.placed.encode(batch)
        inputs = dict(zip(INPUTS, (batch.input_ids, mask), strict=True))
        vectors = session.run([OUTPUT], inputs)[0]
        differences.append(np.abs(vectors - expected).max() / np.abs(expected).max())

    return float(np.max(differences))


def longest_input(encoder: Encoder) -> int:
    """Return the length of the longest input in tokens: a text of `max_length` in its template."""
    around = 0
    if encoder.recipe.resolved_prompt is not None:
        around = int(encoder.tokenizer().encode([""], 1).lengths[0])
    return min(encoder.recipe.max_length + around, encoder.backbone.max_length)


def _batches(encoder: Encoder) -> Iterator[TokenIds]:
    """Yield batches of random ids: one text, several of a length, of many lengths, and the longest."""
    longest = longest_input(encoder)
    ids = encoder.backbone.tokenizer.encode(TEXTS, MIXED).ids
    draw = np.random.default_rng(0)
    longest_mixed = min(longest, MIXED)
    batches = (
        [1],
        [min(2, longest)],
        [1, 1, 1],
        np.linspace(1, longest_mixed, 7),
        np.linspace(longest_mixed, 1, 12),
        [longest, 1],
    )
    for lengths in batches:
        ends = np.cumsum(np.asarray(lengths, np.int64))
        offsets = np.concatenate([[0], ends])
        yield TokenIds(draw.choice(ids, offsets[-1]), offsets)
