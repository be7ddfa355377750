"""Export of an encoder as an ONNX graph, with the files that are needed to use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from sentbed import Encoder, ModelError
from sentbed.helpers import foreign, pad

from sentbed_interop._torch.compared_texts import LONG, SENTENCES
from sentbed_interop._torch.onnx_graph import INPUTS, OUTPUT, write_graph
from sentbed_interop._torch.onnx_readme import (
    adds_special_tokens,
    require_known_rules,
    write_readme,
)
from sentbed_interop._torch.prompt_limits import (
    require_no_task_prompts,
    require_plain_prompt,
)

TOLERANCE = 1e-4
"""Largest allowed difference from the encoder's vectors, relative to their largest absolute value."""

GRAPH = "model.onnx"


def export(
    encoder: Encoder,
    directory: Path,
    opset: int,
) -> None:
    """Write graph, tokenizer and README into `directory`; see `to_onnx.ToONNX`."""
    require_plain_prompt(encoder, "the graph")
    require_no_task_prompts(encoder)
    require_known_rules(encoder)
    _require_fp32(encoder)
    tokenizer = _tokenizer(encoder)
    _require_same_ids(encoder, tokenizer.backend_tokenizer)

    write_graph(encoder, directory / GRAPH, opset)
    _require_same_vectors(encoder, directory / GRAPH)

    # The encoder's last call has set truncation and padding, which must not be saved.
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(directory)
    write_readme(encoder, directory)


def _require_fp32(encoder: Encoder) -> None:
    """Raise `ModelError` if the backbone's weights have less precision than fp32."""
    backbone: Any = encoder.recipe.backbone
    if getattr(backbone, "quantization", None) is not None:
        raise ModelError(
            f"the backbone is held in 4 bits (`quantization = {backbone.quantization!r}`), which a graph "
            "does not support; write plain weights with `sentbed export ENCODER PLAIN`, set "
            '`dtype = "fp32"` in `PLAIN/encoder.toml`, and export PLAIN'
        )
    dtype = getattr(backbone, "dtype", "fp32")
    if dtype != "fp32":
        raise ModelError(
            f"the backbone is held in {dtype}, in which it also computes, and the graph computes in fp32: "
            'vectors would differ in the third digit; set `dtype = "fp32"` in the encoder\'s `encoder.toml`, '
            "and export it again"
        )


def _tokenizer(encoder: Encoder) -> Any:
    """Return the encoder's tokenizer of transformers. Raises `ModelError` if it has another tokenizer."""
    original = getattr(encoder.backbone.tokenizer, "original", None)
    if not hasattr(original, "backend_tokenizer"):
        raise ModelError(
            f"the tokenizer of the backbone `{encoder.recipe.backbone.name}` has no `tokenizer.json`, which "
            "users of the graph would need; use a backbone with a tokenizer of transformers"
        )
    return original


def _require_same_ids(encoder: Encoder, backend: Any) -> None:
    """Raise `ModelError` if the tokenizer's file alone gives other ids than the encoder for a text."""
    longest = encoder.backbone.max_length
    expected = encoder.backbone.tokenizer.encode(SENTENCES, longest)
    special = adds_special_tokens(encoder)
    backend.enable_truncation(longest)
    ids = []
    for text in SENTENCES:
        ids += backend.encode(text, add_special_tokens=special).ids

    if ids != expected.ids.tolist():
        raise ModelError(
            f"the `tokenizer.json` of the backbone `{encoder.recipe.backbone.name}` gives other ids than the "
            "encoder, so that users of the graph would have them; use the encoder in sentbed"
        )


def _require_same_vectors(encoder: Encoder, graph: Path) -> None:
    """Raise `ModelError` if onnxruntime does not give the encoder's vectors for batches of several shapes."""
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    tokens = encoder.tokenizer().encode([*SENTENCES, LONG], encoder.recipe.max_length)
    every_text = np.arange(len(tokens))
    for rows in (every_text, every_text[:1], every_text[-1:]):
        batch = pad(tokens, rows, encoder.backbone.tokenizer.pad_id)
        mask = batch.attention_mask
        if mask is None:
            mask = np.ones_like(batch.input_ids)

        expected = encoder.placed.encode(batch)
        inputs = dict(zip(INPUTS, (batch.input_ids, mask), strict=True))
        failure = (
            "onnxruntime cannot run the graph on batches of other sizes and lengths"
        )
        advice = "where a module has `len(tensor)`, write `tensor.shape[0]`"
        with foreign(ModelError, failure, advice):
            vectors = session.run([OUTPUT], inputs)[0]

        difference = np.abs(vectors - expected).max() / np.abs(expected).max()
        # Also true if a vector has NaN.
        if not difference <= TOLERANCE:
            raise ModelError(
                f"onnxruntime's vectors differ from the encoder's by {difference:.1e} of their largest "
                f"value, expected at most {TOLERANCE:g}; try another `opset`, or export "
                "`--to sentence-transformers`"
            )
