"""Tracing of an encoder into an ONNX graph."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from sentbed import Encoder, ModelError
from torch.export import Dim
from torch.nn import functional

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"

AXES = ("batch", "length")
"""Names of the axes of both inputs. Each axis may have any size."""

ONE_FILE = 2_000_000_000
"""Largest size in bytes of weights in the graph's own file, since protobuf is limited to 2 GiB.

Larger weights are written into a second file."""

LOUD = ("torch.onnx", "torch.export", "torch.fx", "onnxscript", "onnx_ir")
"""Loggers that are silenced: they report missing libraries, and problems that an error reports as well."""


class ExportedEncoder(torch.nn.Module):
    """Backbone, pooler and head as one module, made of operations that the exporter can trace."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        module: Any = encoder.placed.module
        module.eval()
        # It is a copy, with adapters merged.
        self.backbone = encoder.backbone.inference(
            module.backbone, torch.float32, traceable=True
        )
        self.pooler = module.pooler
        self.projection = module.projection
        self.transform = module.transform
        self.dimensions = module.dimensions
        self.normalize = module.normalize
        for part in self.backbone.modules():
            if hasattr(part, "set_attn_implementation"):
                part.set_attn_implementation("eager")

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor
    ) -> torch.Tensor:
        """Return the vectors of a batch, `(batch, width)`."""
        states = self.backbone(input_ids, attention_mask)
        projected = self.projection(self.pooler(states))
        vectors: torch.Tensor = self.transform(projected)[:, : self.dimensions]
        if self.normalize:
            return functional.normalize(vectors, dim=-1)
        return vectors


def write_graph(
    encoder: Encoder,
    path: Path,
    opset: int,
    length: int,
) -> None:
    """Write the graph of an encoder. It is traced with two texts, of which the longer has `length` tokens.

    Raises:
        ModelError: if a part cannot be traced, or if the graph is valid only for the traced shape.
    """
    exported = ExportedEncoder(encoder)
    parts = f"the backbone `{encoder.recipe.backbone.name}` or the pooler `{encoder.recipe.pooler.name}`"
    axes = {index: Dim(name) for index, name in enumerate(AXES)}
    with _quiet():
        try:
            program: Any = torch.onnx.export(
                exported,
                _example(encoder, length),
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
                f"{parts} cannot be traced into a graph: {str(cause).splitlines()[0]}; use another, or "
                "export `--to sentence-transformers`"
            ) from error

    _require_open_axes(program, parts)
    for node in program.model.graph.all_nodes():
        # The metadata has names of source files on this machine.
        node.metadata_props.clear()

    size = 0
    for tensor in exported.state_dict().values():
        size += tensor.nbytes
    program.save(path, external_data=size > ONE_FILE)


def _example(encoder: Encoder, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask `(2, length)` of two texts; the second has half the length and is padded."""
    ids = torch.tensor(
        encoder.backbone.tokenizer.encode(["a text"], length).ids, dtype=torch.long
    )
    ids = ids.repeat(length)[:length].repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, (length + 1) // 2 :] = 0
    return ids, mask


def _require_open_axes(program: Any, parts: str) -> None:
    """Raise `ModelError` if the graph takes only one size of batch, or only one length."""
    for value in program.model.graph.inputs:
        for name, size in zip(AXES, value.shape, strict=True):
            if isinstance(size, int):
                raise ModelError(
                    f"the graph would take a {name} of {size} only: {parts} takes it for a constant, as from "
                    "`len(tensor)`; write `tensor.shape[0]` there"
                )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of torch and its exporter within a `with` block, and restore autocast's cache.

    A trace that fails leaves the cache switched off. Without it, training in bf16 keeps a copy of the weights for
    each pass.
    """
    caches_casts = torch.is_autocast_cache_enabled()
    loggers = [logging.getLogger(name) for name in LOUD]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        # If a module cannot be traced, torch prints the parts of it that can be traced.
        with (
            warnings.catch_warnings(),
            redirect_stdout(io.StringIO()),
            redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_autocast_cache_enabled(caches_casts)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
