"""The engine around ONNX Runtime."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from sentbed import ModelError, RunError
from sentbed.errors import foreign
from sentbed.protocols import BuiltBackbone
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, TraceableEncoder
from sentbed_hardware.engine_parts.encoding_engine import (
    EncodingEncoder,
    EncodingEngine,
    Project,
)
from sentbed_hardware.engine_parts.processor import default_threads
from sentbed_hardware.engine_parts.traced_graph import (
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
"""What `int8` means, for the protocol of scores.

Without VNNI, processors add two products of 8 bits in 16, which may overflow; with weights of 7 bits nothing
does."""


def build_engine(
    runtime: str, precision: str, threads: int | None
) -> OnnxRuntimeEngine:
    """Return the engine of the runtime `runtime`; see `OnnxRuntime.build`."""
    threads = threads or default_threads()
    torch.set_num_threads(threads)

    facts = {
        "runtime": runtime,
        "device": torch.cpu.get_capabilities().get("cpu_name", "unknown"),
        "precision": precision,
        "onnxruntime": onnxruntime.__version__,
        "threads": threads,
    }
    return OnnxRuntimeEngine(facts)


class OnnxRuntimeEngine(EncodingEngine):
    """Runs graphs on the host's processor."""

    def protocol_of(self, encoder: EncodingEncoder) -> Mapping[str, Any]:
        """Return the library's version, and what int8 means here."""
        library = {"engine": f"onnxruntime {onnxruntime.__version__}"}
        if self.facts["precision"] == "fp32":
            return library

        return {**library, "int8": dict(QUANTISATION)}

    def compiled(self, backbone: BuiltBackbone, module: EncoderModule) -> Project:
        """Return the session of an encoder's graph.

        Raises:
            ModelError: if a part cannot be traced, or its graph gives other vectors.
        """
        parts = parts_of(backbone, module)
        traceable = TraceableEncoder(module, backbone)
        ids = sample_ids(backbone)
        with tempfile.TemporaryDirectory(prefix="sentbed-onnx-") as directory:
            path = Path(directory) / "encoder.onnx"
            write_graph(traceable, inputs_to_trace(ids), path, parts)
            project = self._session(path, parts)
            require_same_vectors(project, traceable, ids, backbone.max_length, parts)
            if self.facts["precision"] == "int8":
                project = self._session(_quantised(path), parts)

        return project

    def _session(self, path: Path, parts: str) -> Project:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = (
            self.facts["threads"],
            1,
        )
        options.log_severity_level = 4

        # Batches have many shapes, and a plan of memory would be kept for each.
        options.enable_mem_pattern = False
        # Threads that wait by spinning would take time from PyTorch and from other processes.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        with foreign(
            ModelError,
            f"ONNX Runtime does not load the graph of {parts}",
            "use the runtime `cpu`",
        ):
            session = onnxruntime.InferenceSession(
                path, options, providers=["CPUExecutionProvider"]
            )

        def project(
            input_ids: NDArray[np.int64], mask: NDArray[np.int64]
        ) -> NDArray[np.float32]:
            rows, length = input_ids.shape
            what = f"ONNX Runtime does not encode a batch of {rows} texts of {length} tokens"
            with foreign(
                RunError, what, "set a smaller `max_length`, or use the runtime `cpu`"
            ):
                vectors: NDArray[np.float32] = session.run(
                    [OUTPUT], dict(zip(INPUTS, (input_ids, mask), strict=True))
                )[0]

            return vectors

        return project


def _quantised(path: Path) -> Path:
    """Write the graph of `path` with products in int8 beside it; return its path."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("int8.onnx")
    what = "ONNX Runtime does not quantise the graph"
    with foreign(ModelError, what, 'use `precision = "fp32"`'), without_log():
        quantize_dynamic(
            path,
            target,
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            extra_options={"WeightSymmetric": True, "EnableSubgraph": False},
        )

    return target
