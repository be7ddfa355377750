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
from sentbed.helpers import foreign
from torch.export import Dim
from torch.nn import functional

from sentbed_interop._torch.prompt_limits import longest_input

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"

AXES = ("batch", "length")
"""Names of the axes of both inputs. Each axis may have any size."""

ONE_FILE = 2_000_000_000
"""Largest size in bytes of weights in the graph's own file, since protobuf is limited to 2 GiB.

Larger weights are written into a second file."""


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


def write_graph(encoder: Encoder, path: Path, opset: int) -> None:
    """Write the graph of an encoder, traced with two texts.

    Raises:
        ModelError: if a part cannot be traced.
    """
    exported = ExportedEncoder(encoder)
    axes = {index: Dim(name) for index, name in enumerate(AXES)}
    failure = (
        f"the backbone `{encoder.recipe.backbone.name}` or the pooler `{encoder.recipe.pooler.name}` cannot be "
        "traced into a graph"
    )
    advice = "use another, or export `--to sentence-transformers`"
    with foreign(ModelError, failure, advice), _quiet():
        program: Any = torch.onnx.export(
            exported,
            _example(encoder),
            dynamo=True,
            verbose=False,
            input_names=INPUTS,
            output_names=[OUTPUT],
            dynamic_shapes=dict.fromkeys(INPUTS, axes),
            opset_version=opset,
        )

    for node in program.model.graph.all_nodes():
        # The metadata has names of source files on this machine.
        node.metadata_props.clear()

    size = 0
    for tensor in exported.state_dict().values():
        size += tensor.nbytes
    program.save(path, external_data=size > ONE_FILE)


def _example(encoder: Encoder) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask `(2, length)` of two texts; the second has half the length and is padded."""
    length = min(longest_input(encoder), 6)
    tokens = encoder.backbone.tokenizer.encode(["a text"], length)
    ids = torch.tensor(tokens.ids, dtype=torch.long)
    ids = ids.repeat(length)[:length].repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, (length + 1) // 2 :] = 0
    return ids, mask


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence torch's exporter within a `with` block, and restore autocast's cache.

    The exporter reports missing libraries, and problems that an error reports as well. A trace that fails leaves
    the cache switched off: without it, training in bf16 keeps a copy of the weights for each pass.
    """
    caches_casts = torch.is_autocast_cache_enabled()
    logging.disable(logging.CRITICAL)
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
        logging.disable(logging.NOTSET)
        torch.set_autocast_cache_enabled(caches_casts)
