"""Comparison of an ONNX graph's vectors with its encoder's."""

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
from sentbed_interop._torch.prompt_limits import longest_input

TEXTS = (
    "Two small birds sing in the old tree behind the house, and nobody hears them!",
    "Is a vector of 384 numbers enough for it? 7, 8 and 9 are; 10 (ten) is not.",
)
"""Texts whose token ids are compared with those of `tokenizer.json`, and drawn from to compare vectors."""

MIXED = 64
"""Maximum number of tokens of a text in the two batches whose texts have many different lengths."""


def open_session(path: Path) -> Any:
    """Open a graph on this machine's processor, with as many threads as torch has."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )


def difference(encoder: Encoder, session: Any) -> float:
    """Return the largest difference of the graph's vectors from the encoder's, over batches of many shapes.

    It is relative to the largest absolute value in the encoder's vectors of the batch. It is NaN if a vector has
    NaN.
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


def _batches(encoder: Encoder) -> Iterator[TokenIds]:
    """Yield batches of random token ids, of different sizes and lengths, including the longest input."""
    longest = longest_input(encoder)
    ids = encoder.backbone.tokenizer.encode(TEXTS, MIXED).ids
    generator = np.random.default_rng(0)
    longest_mixed = min(longest, MIXED)
    rising = np.linspace(1, longest_mixed, 7)
    falling = np.linspace(longest_mixed, 1, 12)
    shortest = min(2, longest)
    lengths_of_batches = ([1], [shortest], [1, 1, 1], rising, falling, [longest, 1])
    for lengths in lengths_of_batches:
        ends = np.cumsum(np.asarray(lengths, np.int64))
        offsets = np.concatenate([[0], ends])
        yield TokenIds(generator.choice(ids, offsets[-1]), offsets)
