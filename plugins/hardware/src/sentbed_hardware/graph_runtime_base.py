"""Reasons why an exported graph (OpenVINO or ONNX) cannot compute an encoder."""

from __future__ import annotations

from collections.abc import Iterator

from sentbed.protocols import Backbone, Pooler


def misfits_of_graph(runtime: str, backbone: Backbone, pooler: Pooler) -> Iterator[str]:
    """Yield each reason why the graph of a runtime cannot compute an encoder.

    A graph has no interventions, no weights in less than fp32, and no states of a template alone.
    """
    if getattr(backbone, "intervention", None) is not None:
        yield (
            f"the runtime `{runtime}` has no interventions, which change states between a backbone's "
            "blocks; use the runtime `cpu`, or take the intervention out"
        )

    quantized = getattr(backbone, "quantization", None) is not None
    if quantized or getattr(backbone, "dtype", "fp32") != "fp32":
        yield (
            f"the runtime `{runtime}` computes from weights in fp32, and the backbone holds them in "
            'less; set its `dtype = "fp32"` without `quantization`, or use the runtime `cpu`'
        )

    if pooler.traits.needs & {"template-alone", "template-alone-from-0"}:
        yield (
            f"the runtime `{runtime}` has no state of a template alone, which the pooler "
            f"`{pooler.name}` subtracts; use the runtime `cpu`, or set `denoise = false`"
        )
