"""Tracing of an encoder into an ONNX graph."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from sentbed import Encoder, ModelError
from sentbed_hardware.engine_parts.encoder_module import TraceableEncoder
from sentbed_hardware.engine_parts.traced_graph import (
    INPUTS,
    inputs_to_trace,
    quiet_tracing,
    sample_ids,
)
from torch.export import Dim
from torch.nn import functional

OUTPUT = "sentence_embedding"
AXES = ("batch", "length")
ONE_FILE = 2_000_000_000
"""Largest size of weights in the graph's own file, in bytes: protobuf is limited to 2 GiB."""


class WholeEncoder(TraceableEncoder):
    """A traceable encoder with the rest of its head: transform, choice of dimensions and norm."""

    def __init__(self, encoder: Encoder) -> None:
        module: Any = encoder.placed.module
        super().__init__(module, encoder.backbone)
        self.transform = module.transform
        self.dimensions = module.dimensions
        self.normalize = module.normalize

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Encode one batch."""
        projected = super().forward(input_ids, attention_mask)
        vectors: torch.Tensor = self.transform(projected)[:, : self.dimensions]
        if self.normalize:
            return functional.normalize(vectors, dim=-1)

        return vectors


def write_graph(encoder: Encoder, path: Path, opset: int) -> None:
    """Write the graph of an encoder.

    Raises:
        ModelError: if a part cannot be traced, or only for a fixed shape.
    """
    whole = WholeEncoder(encoder)
    parts = f"the backbone `{encoder.recipe.backbone.name}` or the pooler `{encoder.recipe.pooler.name}`"
    axes = {place: Dim(name) for place, name in enumerate(AXES)}
    with _quiet():
        try:
            program: Any = torch.onnx.export(
                whole,
                inputs_to_trace(sample_ids(encoder.backbone)),
                dynamo=True,
                verbose=False,
                input_names=INPUTS,
                output_names=[OUTPUT],
                dynamic_shapes=dict.fromkeys(INPUTS, axes),
                opset_version=opset,
            )
        except torch.onnx.OnnxExporterError as error:
            cause = error.__cause__ or error
            raise ModelError(
                f"{parts} cannot be traced into a graph: {str(cause).splitlines()[0]}; take another, or "
                "export `--to sentence-transformers`"
            ) from error

    _require_open_axes(program, parts)
    for node in program.model.graph.all_nodes():
        # The metadata has names of source files on this machine.
        node.metadata_props.clear()

    size = sum(tensor.nbytes for tensor in whole.state_dict().values())
    program.save(path, external_data=size > ONE_FILE)


def _require_open_axes(program: Any, parts: str) -> None:
    """Raise `ModelError` if the graph accepts only one size of an axis."""
    for value in program.model.graph.inputs:
        for name, size in zip(AXES, value.shape, strict=True):
            if isinstance(size, int):
                raise ModelError(
                    f"the graph would take a {name} of {size} only: {parts} computes with it as a number, as "
                    "`len(tensor)` gives; write `tensor.shape[0]` there"
                )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which prints all parts that can be traced before it raises an error."""
    output = io.StringIO()
    logging.disable(logging.ERROR)
    try:
        with redirect_stdout(output), redirect_stderr(output), quiet_tracing():
            yield
    finally:
        logging.disable(logging.NOTSET)
