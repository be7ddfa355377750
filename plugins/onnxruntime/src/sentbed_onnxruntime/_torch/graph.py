"""An encoder as a graph in the format ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
from sentbed import ModelError
from sentbed.errors import foreign
from sentbed_hardware.engine_parts.encoder_module import TraceableEncoder

INPUTS = ("input_ids", "attention_mask")
OUTPUT = "vectors"
AXES = {0: "batch", 1: "length"}

OPSET = 17
"""The first version of ONNX's operators with layer normalisation as one of them."""

LENGTH = 6
"""Tokens of the longer text that is traced."""


def write_graph(
    encoder: TraceableEncoder, ids: torch.Tensor, path: Path, parts: str
) -> None:
    """Write the graph of an encoder, with open axes, to `path`; weights of 2 GB and more lie beside it.

    `ids` `(tokens,)` are those of some text. TorchScript's exporter takes 0.2 to 0.5 s for a tiny encoder and
    2 s for MiniLM, where that of `torch.export` took 22 s for the same vectors; sizes that it takes for
    constants are found by `Comparison`.

    Raises:
        ModelError: if `parts` cannot be traced.
    """
    rows = ids.repeat(LENGTH)[:LENGTH].repeat(2, 1)
    mask = torch.ones_like(rows)
    mask[1, LENGTH // 2 :] = 0
    axes = {**dict.fromkeys(INPUTS, AXES), OUTPUT: {0: AXES[0]}}
    what, remedy = f"{parts} cannot be traced into a graph", "use the runtime `cpu`"
    with foreign(ModelError, what, remedy), _quiet():
        torch.onnx.export(
            encoder.eval(),
            (rows, mask),
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes=axes,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what tracing says: that it is deprecated, and that sizes may be constants."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        silent = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(silent):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
