"""The engine on ONNX Runtime: it exports encoders to graphs, loads these, and checks their vectors."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone
from sentbed_common import processor_capabilities
from sentbed_hardware.engine_parts.cpu_defaults import default_threads
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, traceable
from sentbed_hardware.engine_parts.encoding_engine import (
    EncodingEncoder,
    EncodingEngine,
    Project,
)
from sentbed_hardware.engine_parts.tracing import (
    INPUTS,
    inputs_to_trace,
    parts_of,
    require_same_vectors,
    sample_ids,
    without_log,
)

from sentbed_onnxruntime._torch.graph import OUTPUT, write_graph

QUANTISATION: Mapping[str, Any] = {
    "weights": "7 bits a channel",
    "inputs": "uint8, range of each batch",
}
"""How a graph is quantised in `int8`. This is part of the protocol that is recorded with every score.

Processors without VNNI add two products of 8-bit numbers in 16 bits, which may overflow. With weights of 7
bits, no sum overflows."""


def build_engine(
    runtime: str,
    precision: str,
    threads: int | None,
) -> OnnxRuntimeEngine:
    """Return the engine of the runtime `runtime`. The arguments are fields of `OnnxRuntime`."""
    threads = threads or default_threads()
    torch.set_num_threads(threads)

    facts = {
        "runtime": runtime,
        "device": processor_capabilities().get("cpu_name", "unknown"),
        "precision": precision,
        "onnxruntime": onnxruntime.__version__,
        "threads": threads,
    }
    return OnnxRuntimeEngine(facts)


class OnnxRuntimeEngine(EncodingEngine):
    """An engine that encodes with graphs of ONNX Runtime on the host's processor."""

    def protocol_of(self, encoder: EncodingEncoder) -> Mapping[str, Any]:
        """Return the version of ONNX Runtime and, if the precision is int8, how the graph is quantised."""
        library = {"engine": f"onnxruntime {onnxruntime.__version__}"}
        if self.facts["precision"] == "fp32":
            return library

        return {**library, "int8": dict(QUANTISATION)}

    def compiled(self, backbone: BuiltBackbone, module: EncoderModule) -> Project:
        """Return a function that computes batches with an encoder's graph, in the engine's precision.

        Raises:
            ModelError: if the graph's vectors in fp32 differ from PyTorch's.
        """
        parts = parts_of(backbone, module)
        encoder = traceable(module, backbone)
        ids = sample_ids(backbone)
        with tempfile.TemporaryDirectory(prefix="sentbed-onnx-") as directory:
            path = Path(directory) / "encoder.onnx"
            write_graph(encoder, inputs_to_trace(ids), path)
            project = self._session(path)
            require_same_vectors(project, encoder, ids, backbone.max_length, parts)
            if self.facts["precision"] == "int8":
                project = self._session(_quantised(path))

        return project

    def _session(self, path: Path) -> Project:
        """Return a function that computes batches with the graph in the file `path`."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.facts["threads"]
        options.inter_op_num_threads = 1
        # Only fatal errors are logged; all others are raised.
        options.log_severity_level = 4

        # ONNX Runtime would keep a memory plan for each shape, and batches have many shapes.
        options.enable_mem_pattern = False
        # Spinning threads would take processor time from PyTorch and from other processes.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )

        def project(
            input_ids: NDArray[np.int64], mask: NDArray[np.int64]
        ) -> NDArray[np.float32]:
            """Compute a batch."""
            inputs = dict(zip(INPUTS, (input_ids, mask), strict=True))
            vectors: NDArray[np.float32] = session.run([OUTPUT], inputs)[0]
            return vectors

        return project


def _quantised(path: Path) -> Path:
    """Quantise the products of the graph in the file `path` to int8, and return the path of the new file beside
    it."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("int8.onnx")
    with without_log():
        quantize_dynamic(
            path,
            target,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "EnableSubgraph": False},
        )

    return target
