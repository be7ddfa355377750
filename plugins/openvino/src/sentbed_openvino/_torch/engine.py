"""The engine on OpenVINO: it traces encoders into graphs, compiles these, and checks their vectors."""

from __future__ import annotations

import queue
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import torch
from numpy.typing import NDArray
from sentbed import ModelError, RunError
from sentbed.errors import foreign
from sentbed.protocols import BuiltBackbone
from sentbed_common import present_instructions, processor_capabilities
from sentbed_hardware.engine_parts.cpu_defaults import (
    default_threads,
    require_instructions,
    streams_on,
)
from sentbed_hardware.engine_parts.encoder_module import EncoderModule, TraceableEncoder
from sentbed_hardware.engine_parts.encoding_engine import (
    EncodingEncoder,
    EncodingEngine,
    Project,
)
from sentbed_hardware.engine_parts.tracing import (
    INPUTS,
    inputs_to_trace,
    least_cosine,
    parts_of,
    quiet_tracing,
    require_same_vectors,
    sample_ids,
)

from sentbed_openvino._torch.compilation_trial import try_compilation
from sentbed_openvino._torch.quantization import int8_protocol, quantized

LEAST_COSINE = {"bf16": 0.99, "int8": 0.9}
"""Precision -> smallest accepted cosine between the graph's vectors and PyTorch's in fp32, on batches of random
tokens. A smaller cosine is an error of the graph, since rounding changes vectors less."""


def build_engine(
    runtime: str,
    precision: str,
    threads: int | None,
    streams: int | None,
) -> OpenVinoEngine:
    """Return the engine of the runtime `runtime`. The arguments are fields of `OpenVino`.

    Raises:
        RuntimeUnavailableError: if the processor has no instructions for the precision.
    """
    require_instructions(precision, 'use `precision = "fp32"`')
    threads = threads or default_threads()
    streams = min(streams or streams_on(threads), threads)

    torch.set_num_threads(threads)

    facts = {
        "runtime": runtime,
        "device": processor_capabilities().get("cpu_name", "unknown"),
        "precision": precision,
        "openvino": openvino.__version__,
        "threads": threads,
        "streams": streams,
    }
    return OpenVinoEngine(facts, streams=streams)


class OpenVinoEngine(EncodingEngine):
    """An engine that encodes with graphs of OpenVINO on the host's processor."""

    def protocol_of(self, encoder: EncodingEncoder) -> Mapping[str, Any]:
        """Return the version of OpenVINO and, if the precision is int8, how the graph is quantised."""
        library = {"engine": f"openvino {openvino.__version__.partition('-')[0]}"}
        if self.facts["precision"] != "int8":
            return library

        return {**library, "int8": {**int8_protocol(), "rest": _type_of_rest()}}

    def compiled(self, backbone: BuiltBackbone, module: EncoderModule) -> Project:
        """Return a function that computes batches with an encoder's graph, in the engine's precision.

        Raises:
            ModelError: if the encoder cannot be traced, compiled or quantised, or if the graph's vectors differ
                too much from PyTorch's.
        """
        parts = parts_of(backbone, module)
        traceable = TraceableEncoder(module, backbone).eval()
        ids, longest = sample_ids(backbone), backbone.max_length
        graph = traced(traceable, ids, parts)
        project = self._compiled(graph, "f32", parts)
        require_same_vectors(project, traceable, ids, longest, parts)

        precision = self.facts["precision"]
        if precision == "fp32":
            return project
        if precision == "int8":
            with foreign(
                ModelError,
                f"NNCF does not quantise the graph of {parts}",
                'use `precision = "fp32"`',
            ):
                graph = quantized(graph, backbone)

        project = self._compiled(graph, _type_of_rest(), parts)
        cosine = least_cosine(project, traceable, ids, longest)
        # Written with `not`, since every comparison with NaN is false.
        if not cosine >= LEAST_COSINE[precision]:
            raise ModelError(
                f"in {precision}, the graph of {parts} gives vectors with a cosine of {cosine:.3f} to those in "
                f'fp32, expected at least {LEAST_COSINE[precision]}; use `precision = "fp32"`'
            )

        return project

    def _compiled(
        self,
        graph: Any,
        products: str,
        parts: str,
    ) -> Project:
        """Compile a graph, and return a function that computes batches with it.

        `products` is the type of the products that are not in int8: f32 or bf16.

        Raises:
            ModelError: if OpenVINO cannot compile the graph.
        """
        hint = "THROUGHPUT"
        if self.streams == 1:
            hint = "LATENCY"

        settings = {
            "INFERENCE_NUM_THREADS": self.facts["threads"],
            "NUM_STREAMS": self.streams,
            "PERFORMANCE_HINT": hint,
            "INFERENCE_PRECISION_HINT": products,
            # With pinning, several processes would all be bound to the same cores.
            "ENABLE_CPU_PINNING": False,
        }
        with tempfile.TemporaryDirectory(prefix="sentbed-openvino-") as directory:
            path = Path(directory) / "encoder.xml"
            openvino.save_model(graph, path, compress_to_fp16=False)
            try_compilation(path, settings, parts)

        with foreign(
            ModelError,
            f"OpenVINO does not compile the graph of {parts}",
            "use the runtime `cpu`",
        ):
            compiled = openvino.Core().compile_model(graph, "CPU", settings)

        return graph_function(compiled, self.streams)


def graph_function(compiled: Any, streams: int) -> Project:
    """Return a function that computes batches with a compiled graph.

    Up to `streams` threads may call it at a time.
    """
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _ in range(streams):
        free.put(compiled.create_infer_request())

    def project(
        input_ids: NDArray[np.int64], mask: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Compute a batch with a request that no other thread uses."""
        rows, length = input_ids.shape
        what = f"OpenVINO does not encode a batch of {rows} texts of {length} tokens"
        remedy = "set a smaller `max_length`, or use the runtime `cpu`"
        request = free.get()
        try:
            with foreign(RunError, what, remedy):
                vectors: NDArray[np.float32] = request.infer([input_ids, mask])[0]
        finally:
            free.put(request)

        return vectors

    return project


def _type_of_rest() -> str:
    """Return OpenVINO's name of the type of all products that are not in int8, in the precisions bf16 and
    int8."""
    return "bf16" if present_instructions("bf16") else "f32"


def traced(
    encoder: TraceableEncoder,
    ids: NDArray[np.int32],
    parts: str,
) -> Any:
    """Return the graph of an encoder in OpenVINO's form, for batches of any number of rows and tokens.

    Raises:
        ModelError: if the encoder cannot be traced; the message names it as `parts`.
    """
    inputs = dict(zip(INPUTS, inputs_to_trace(ids), strict=True))
    what = f"{parts} cannot be traced into a graph"
    with foreign(ModelError, what, "use the runtime `cpu`"), quiet_tracing():
        return openvino.convert_model(encoder, example_input=inputs)
