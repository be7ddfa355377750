"""An encoder as a graph in the format ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from sentbed import ModelError
from sentbed.errors import foreign
from sentbed_hardware.engine_parts.encoder_module import TraceableEncoder
from sentbed_hardware.engine_parts.traced_graph import INPUTS, quiet_tracing

OUTPUT = "vectors"
AXES = {0: "batch", 1: "length"}

OPSET = 17
"""The first version of ONNX's operators with layer normalisation as one of them."""


def write_graph(
    encoder: TraceableEncoder,
    inputs: tuple[torch.Tensor, torch.Tensor],
    path: Path,
    parts: str,
) -> None:
    """Write the graph of an encoder, with open axes, to `path`; weights of 2 GB and more lie beside it.

    `inputs` are ids and mask to trace with. TorchScript's exporter takes 0.2 to 0.5 s for a tiny encoder and
    2 s for MiniLM, where that of `torch.export` took 22 s for the same vectors; sizes that it takes for
    constants are found by `require_same_vectors`.

    Raises:
        ModelError: if `parts` cannot be traced.
    """
    axes = {**dict.fromkeys(INPUTS, AXES), OUTPUT: {0: AXES[0]}}
    what, remedy = f"{parts} cannot be traced into a graph", "use the runtime `cpu`"
    with foreign(ModelError, what, remedy), _quiet():
        torch.onnx.export(
            encoder.eval(),
            inputs,
            path,
            dynamo=False,
            opset_version=OPSET,
            input_names=list(INPUTS),
            output_names=[OUTPUT],
            dynamic_axes=axes,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter writes, too."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with quiet_tracing(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
