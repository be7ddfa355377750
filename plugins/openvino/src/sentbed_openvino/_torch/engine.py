"""The engine on OpenVINO: it traces encoders into graphs, compiles these, and checks their vectors."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import openvino
import torch
from numpy.typing import NDArray
from sentbed.protocols import BuiltBackbone
from sentbed_common import present_instructions, processor_capabilities
from sentbed_hardware.engine_parts.cpu_defaults import (
    default_threads,
    require_instructions,
)
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
    quiet_tracing,
    require_same_vectors,
    sample_ids,
)

from sentbed_openvino._torch.quantization import int8_protocol, quantized

MOST_STREAMS = 4
"""Largest default number of streams, each of which encodes one batch on an equal share of the threads.

More would not help: each stream also runs Python code, and that does not run in parallel.
"""


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


def streams_on(threads: int) -> int:
    """Return the default number of streams: the largest divisor of the threads up to `MOST_STREAMS`.

    So all streams have the same number of threads.
    """
    counts = range(1, MOST_STREAMS + 1)
    return max(count for count in counts if threads % count == 0)


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
            ModelError: if the graph's vectors in fp32 differ from PyTorch's.
        """
        parts = parts_of(backbone, module)
        encoder = traceable(module, backbone)
        ids, longest = sample_ids(backbone), backbone.max_length
        graph = traced(encoder, ids)
        project = self._compiled(graph, "f32")
        require_same_vectors(project, encoder, ids, longest, parts)

        if self.facts["precision"] == "fp32":
            return project
        if self.facts["precision"] == "int8":
            graph = quantized(graph, backbone)
        return self._compiled(graph, _type_of_rest())

    def _compiled(self, graph: Any, products: str) -> Project:
        """Compile a graph, and return a function that computes batches with it.

        `products` is the type of the products that are not in int8: f32 or bf16.
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
        compiled = _core().compile_model(graph, "CPU", settings)
        return graph_function(compiled, self.streams)


@cache
def _core() -> openvino.Core:
    """Return OpenVINO's entry point, which lives as long as the process.

    On a processor with AMX, each one gives signal handlers a stack of its own, and puts back at its end the
    stack that it found. Two that do not end in reverse order leave a stack that is freed: the next signal, such
    as Ctrl-C, then ends the process.
    """
    return openvino.Core()


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
        request = free.get()
        try:
            vectors: NDArray[np.float32] = request.infer([input_ids, mask])[0]
        finally:
            free.put(request)

        return vectors

    return project


def _type_of_rest() -> str:
    """Return OpenVINO's name of the type of all products that are not in int8, in the precisions bf16 and
    int8."""
    return "bf16" if present_instructions("bf16") else "f32"


def traced(encoder: EncoderModule, ids: NDArray[np.int32]) -> Any:
    """Return the graph of an encoder in OpenVINO's form, for batches of any number of rows and tokens."""
    inputs = dict(zip(INPUTS, inputs_to_trace(ids), strict=True))
    with quiet_tracing():
        return openvino.convert_model(encoder, example_input=inputs)
