"""Export of an encoder to a graph in the format ONNX."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import torch
from sentbed_hardware.engine_parts.encoder_module import EncoderModule
from sentbed_hardware.engine_parts.tracing import INPUTS, quiet_tracing

OUTPUT = "vectors"
"""Name of the output of a graph."""
AXES = {0: "batch", 1: "length"}
"""The axes of an input whose sizes are not fixed: number -> name."""

OPSET = 17
"""Version of ONNX's set of operators: the first that has layer normalisation."""


def write_graph(
    encoder: EncoderModule,
    inputs: tuple[torch.Tensor, torch.Tensor],
    path: Path,
) -> None:
    """Write the graph of an encoder to the file `path`, for batches of any number of rows and tokens.

    Weights of 2 GB and more are written to other files beside it. `inputs` are the ids and the mask that are
    used for tracing.

    TorchScript's exporter takes 2 s for MiniLM, that of `torch.export` took 22 s and gave the same vectors.
    TorchScript's exporter may record sizes as constants, an error that `require_same_vectors` finds.
    """
    axes = {**dict.fromkeys(INPUTS, AXES), OUTPUT: {0: AXES[0]}}
    with _quiet():
        torch.onnx.export(
            encoder,
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
    """Silence the warnings of tracing, and also what the exporter logs and prints."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with quiet_tracing(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
